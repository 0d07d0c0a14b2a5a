// The policies and routes in force, with what they guarantee.

import { get } from './api.js';
import { catalog } from './catalog.js';
import { h, nameOf, printable, table } from './dom.js';
import { plural } from './format.js';
import { fillAsync, pageHead, searchable } from './views.js';

const MODES = {
  shadow: 'shadow: counts and reports, never refuses',
  mark: 'mark: never refuses, tells the upstream',
  off: 'off',
};
const ON_MISSING = {
  share: 'requests that lack it share one quota',
  skip: 'requests that lack it have no limit',
  refuse: 'requests that lack it get 401',
};
// Parts of a partition that every request has.
const ALWAYS = ['ip', 'host', 'method', 'route', 'path'];
const ON_STORE_FAILURE = {
  local: 'this gateway limits by its own counters',
  open: 'requests are admitted',
  closed: 'requests get 503',
};

export const title = 'Policies and routes';

export async function mount(root, parameters) {
  const box = h('div', { class: 'halves' });
  root.append(pageHead(title, 'As in the configuration in force.'), box);
  await fillAsync(box, async () => {
    const [policies, routes] = await Promise.all([catalog.readPolicies(), get('api/routes')]);
    return [policiesPart(policies, parameters.get('find') ?? ''), routesPart(routes)];
  });
}

function policiesPart(policies, find) {
  const list = searchable({
    id: 'find-policy',
    label: 'Find a policy',
    noun: 'policies',
    items: policies,
    matches: (policy) => `${policy.name} ${policy.partition.join(' ')} ${policy.mode}`,
    rows: (found) => h('div', { class: 'policies' }, found.map(policyPart)),
    find,
  });
  return h('section', { 'aria-labelledby': 'policies' }, h('h2', { id: 'policies' }, 'Policies'), list.element);
}

function policyPart(policy) {
  const { name, mode, quotas, candidates, penalty, notes, advice } = policy;
  const all = [
    ...quotas.map((quota) => quotaRow(quota)),
    ...(penalty ? [quotaRow(penalty)] : []),
    ...candidates.map((quota) => quotaRow(quota, 'candidate')),
  ];
  const columns = [{ title: 'Quota' }, { title: 'What it lets through' }];
  const clients = `#clients?${new URLSearchParams({ policy: name })}`;
  return h(
    'article',
    { class: 'policy-part' },
    h(
      'div',
      { class: 'section-head' },
      h('h3', null, nameOf(name, 'long')),
      mode !== 'enforce' && h('span', { class: 'tag' }, mode),
      h('a', { href: clients, 'aria-label': `Clients of ${printable(name)}` }, 'Clients'),
    ),
    h('p', null, sentences(policy).map(printable).join(' ')),
    all.length > 0 && table(`Quotas of ${name}`, columns, h('tbody', null, all)),
    notes.map((note) => h('p', { class: 'hint' }, printable(note))),
    advice && h('p', { class: 'warning' }, printable(advice)),
  );
}

function quotaRow({ quota, algorithm, guarantee }, tag) {
  return h(
    'tr',
    null,
    h(
      'th',
      { scope: 'row' },
      printable(quota),
      algorithm && h('span', { class: 'muted' }, `, ${algorithm}`),
      tag && h('span', { class: 'tag' }, tag),
    ),
    h('td', { class: 'words' }, printable(guarantee)),
  );
}

function sentences(policy) {
  const { partition, mode, without_override: own, overrides, spill } = policy;
  const missing = canLack(partition) ? `; ${ON_MISSING[policy.on_missing]}` : '';
  const by = partition.length === 0 ? 'One quota for everyone.' : `By ${partition.join(' and ')}${missing}.`;
  return [
    MODES[mode] && `Mode ${MODES[mode]}.`,
    by,
    own !== 'quotas' && `Clients without an override are ${own}.`,
    overrides && overrideWords(overrides),
    spill && `What it refuses is paid with credits of ${spill}.`,
    `If the store fails, ${ON_STORE_FAILURE[policy.on_store_failure]}.`,
  ].filter(Boolean);
}

/** Whether a request can lack a part of the partition. */
function canLack(partition) {
  return partition.some((part) => !part.split('|').some((choice) => ALWAYS.includes(choice.trim())));
}

function overrideWords({ count, by, unlimited, blocked }) {
  const chosen = by ? `, chosen by ${by.join(' and ')}` : '';
  const kinds = [unlimited > 0 && `${unlimited} unlimited`, blocked > 0 && `${blocked} blocked`].filter(Boolean);
  return `${plural(count, 'override')}${kinds.length > 0 ? ` (${kinds.join(', ')})` : ''}${chosen}.`;
}

function routesPart({ routes, preflight_policies: preflight }) {
  const columns = [{ title: 'Route' }, { title: 'Upstream' }, { title: 'Policies' }];
  const list = searchable({
    id: 'find-route',
    label: 'Find a route',
    noun: 'routes',
    items: routes,
    matches: (route) => `${route.name} ${route.upstream} ${route.policies.map((policy) => policy.name).join(' ')}`,
    rows: (found) => table('Routes', columns, h('tbody', null, found.map(routeRow))),
  });
  const words =
    preflight && `CORS preflights are decided by ${preflight.map((policy) => policy.name).join(', ') || 'no policy'}.`;
  const heading = h('h2', { id: 'routes' }, 'Routes');
  return h(
    'section',
    { 'aria-labelledby': 'routes' },
    heading,
    list.element,
    words && h('p', { class: 'hint' }, printable(words)),
  );
}

function routeRow({ name, upstream, policies }) {
  const links = policies.map((policy) => {
    const cost = policy.cost === null ? ' (cost by request)' : policy.cost === 1 ? '' : ` (cost ${policy.cost})`;
    const href = `#policies?${new URLSearchParams({ find: policy.name })}`;
    return h('li', null, h('a', { href }, nameOf(policy.name)), cost);
  });
  const limits = links.length === 0 ? h('span', { class: 'muted' }, 'no policy') : h('ul', { class: 'plain' }, links);
  return h('tr', null, h('th', { scope: 'row' }, nameOf(name)), h('td', null, nameOf(upstream)), h('td', null, limits));
}
