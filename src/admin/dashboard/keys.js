// The directives in force: blocks and other quotas of single clients.

import { act, block, chooseTarget, endOverride, raise, unblock } from './actions.js';
import { post } from './api.js';
import { catalog, isBlock, withPrefix } from './catalog.js';
import { h, nameOf, printable, table, timeOf } from './dom.js';
import { clock, duration, secondsSince } from './format.js';
import { live } from './live.js';
import { fillAsync, pageHead, searchable } from './views.js';

export const title = 'Keys in force';

export async function mount(root) {
  const box = h('div', { class: 'result' });
  const choose = (text, next) =>
    h('button', { type: 'button', onclick: () => chooseTarget(text.slice(0, -1), next) }, text);
  root.append(
    pageHead(title, 'What was ordered for single clients for a time: blocks and other quotas.'),
    h(
      'div',
      { class: 'buttons start' },
      choose('Block a client…', block),
      choose('Raise a client’s quota…', raise),
      choose('Unblock a client…', unblock),
    ),
    box,
  );
  await catalog.readPolicies().catch(() => {});
  let list = null;
  await fillAsync(box, async () => {
    list = searchableList(await catalog.readDirectives());
    return [list.element];
  });
  let shown = catalog.directives;
  const update = () => {
    if (catalog.directives !== shown) list?.show(catalog.directives);
    shown = catalog.directives;
  };
  catalog.addEventListener('change', update);
  return () => catalog.removeEventListener('change', update);
}

function searchableList(directives) {
  const columns = [
    { title: 'Client' },
    { title: 'In force' },
    { title: 'Since', class: 'number wide' },
    { title: 'Until', class: 'number' },
    { title: 'Actions', class: 'actions' },
  ];
  return searchable({
    id: 'find-key',
    label: 'Find',
    noun: 'blocks or other quotas',
    items: directives,
    matches: (item) => `${clientOf(item)} ${item.client} ${item.policy ?? ''} ${item.grant.join(' ')}`,
    rows: (found) => table('What is in force for a time', columns, h('tbody', null, found.map(directiveRow))),
  });
}

/** A client that was named by its id is shown as the log shows it, if that is known. */
const clientOf = ({ policy, client, ids }) =>
  ids.length === 1 ? live.nameOf(policy, withPrefix(ids[0]), client) : client;

function directiveRow(directive) {
  const { policy, grant, since, until } = directive;
  const client = clientOf(directive);
  const blocked = isBlock(directive);
  const words = blocked ? 'Unblock' : 'End';
  const end = () => endDirective(directive);
  const label = `${blocked ? 'Unblock' : 'End override of'} ${printable(client).slice(0, 80)}`;
  const button = h('button', { type: 'button', onclick: end, 'aria-label': label }, words);
  const left = duration(-secondsSince(until));
  return h(
    'tr',
    null,
    h(
      'th',
      { scope: 'row' },
      nameOf(client),
      h('span', { class: 'sub' }, policy === null ? 'every policy' : nameOf(policy)),
    ),
    h(
      'td',
      null,
      blocked ? h('strong', { class: 'state', 'data-level': 'bad' }, 'blocked') : printable(grant.join(', ')),
    ),
    h('td', { class: 'number wide' }, timeOf(since, clock(since))),
    h('td', { class: 'number' }, timeOf(until, clock(until)), h('span', { class: 'sub' }, `in ${left}`)),
    h('td', { class: 'actions' }, button),
  );
}

function endDirective(directive) {
  const { policy, client, ids } = directive;
  const value = ids.length > 0 ? withPrefix(ids[0]) : client;
  const target = { policy, client: clientOf(directive), id: value };
  if (policy === null) return act(() => unblockEverywhere(value), target);
  return isBlock(directive) ? unblock(target) : endOverride(target);
}

/** Ends a block under every policy: through the first policy whose partition knows the value. */
async function unblockEverywhere(value) {
  // The gateway keeps only digests of values that can be secrets, and accepts no digest as a value.
  if (value.includes('~'))
    throw new Error('Only a digest of this value is known: use “Unblock a client…” with the value itself.');
  let problem = new Error('The configuration has no policies.');
  for (const policy of onePerPartition()) {
    try {
      return await post('api/keys/unblock', { policy, value });
    } catch (error) {
      problem = error;
      if (error.status !== 400 && error.status !== 404) break;
    }
  }
  throw problem;
}

function onePerPartition() {
  const byPartition = new Map();
  for (const { name, partition } of catalog.policies.values()) byPartition.set(partition.join('\n'), name);
  return byPartition.values();
}
