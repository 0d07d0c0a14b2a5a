// Pages through the clients of a policy, and shows all that is known about one.

import { get, post } from './api.js';
import { clientButtons, endOverride, fact, reset } from './actions.js';
import { catalog, isBlock, withPrefix } from './catalog.js';
import { announce, field, h, nameOf, printable, select, table, timeOf } from './dom.js';
import { clock, count, duration, percent, plural, range } from './format.js';
import { live } from './live.js';
import { fillAsync, go, pageHead } from './views.js';

const PAGE = 50;
const REREAD_MS = 5_000;
const ORDERS = [
  ['refused', 'refused most'],
  ['spent', 'spent most'],
  ['nearest', 'nearest to a quota'],
];

export const title = 'Clients';

/** Shows the page of clients that the parameters name. */
export async function mount(root, parameters) {
  const box = h('div', { class: 'result' });
  root.append(pageHead(title, 'As far as this gateway has seen in the last 5 to 10 minutes.'));
  const policies = [...(await known()).keys()];
  if (policies.length === 0) {
    root.append(h('p', { class: 'none' }, 'The configuration has no policies, so no clients are counted.'));
    return undefined;
  }
  const policy = parameters.get('policy') ?? policies[0];
  const order = parameters.get('order') ?? 'refused';
  const offset = Number(parameters.get('offset') ?? 0);
  root.append(h('div', { class: 'forms' }, listForm(policies, policy, order), lookupForm(policies, policy)), box);
  const rows = [];
  await fillAsync(box, async () => {
    const usage = await get('api/usage', { policy, order, offset, limit: PAGE });
    return page(usage, offset, rows);
  });
  return followDirectives(rows);
}

async function known() {
  if (catalog.policies.size === 0) await catalog.readPolicies();
  return catalog.policies;
}

function followDirectives(rows) {
  const update = () => rows.forEach((row) => row());
  catalog.addEventListener('change', update);
  return () => catalog.removeEventListener('change', update);
}

function listForm(policies, policy, order) {
  const policyField = select(
    'list-policy',
    policies.map((name) => [name, name]),
    policy,
  );
  const orderField = select('list-order', ORDERS, order);
  const show = (event) => {
    event.preventDefault();
    go('clients', { policy: policyField.value, order: orderField.value });
  };
  const form = h(
    'form',
    { class: 'line', onsubmit: show },
    field('Policy', policyField),
    field('Order', orderField),
    h('button', { type: 'submit', class: 'primary' }, 'Show'),
  );
  return h('section', null, h('h2', null, 'All clients of a policy'), form);
}

function lookupForm(policies, policy) {
  const policyField = select(
    'look-policy',
    policies.map((name) => [name, name]),
    policy,
  );
  const value = h('input', { id: 'look-value', required: true, autocomplete: 'off', spellcheck: 'false' });
  const found = h('div', { class: 'result' });
  const find = async (event) => {
    event.preventDefault();
    await fillAsync(found, async () => {
      const client = await post('api/keys/get', { policy: policyField.value, value: value.value.trim() });
      announce(`Found ${printable(client.client)}.`);
      return [clientFacts(client, value.value.trim())];
    });
  };
  const form = h(
    'form',
    { class: 'line', onsubmit: find },
    field('Policy', policyField),
    field('Client, as in overrides', value),
    h('button', { type: 'submit' }, 'Find'),
  );
  return h('section', null, h('h2', null, 'One client'), form, found);
}

function page(usage, offset, rows) {
  const since = usage.since ? ` since ${clock(usage.since)}` : '';
  const shown =
    usage.clients.length === 0
      ? 'No clients'
      : `${count(offset + 1)} to ${count(offset + usage.clients.length)} of ${plural(usage.count, 'client')}`;
  const link = (text, to) =>
    h(
      'button',
      {
        type: 'button',
        disabled: to === null,
        onclick: () => go('clients', { policy: usage.policy, order: usage.order, offset: to }),
      },
      text,
    );
  const previous = offset > 0 ? Math.max(0, offset - PAGE) : null;
  return [
    h(
      'div',
      { class: 'section-head' },
      h('h2', null, `${printable(usage.policy)}: ${ORDERS.find(([order]) => order === usage.order)[1]}`),
      h('span', { class: 'unit' }, `${shown}${since}`),
    ),
    usage.clients.length > 0 && clientsTable(usage, rows),
    h('div', { class: 'pages' }, link('Previous', previous), link('Next', usage.next_offset)),
  ].filter(Boolean);
}

function clientsTable({ policy, order, clients }, rows) {
  const near = order === 'nearest';
  const numbers = near ? ['Used', 'Left', 'Seen'] : [order === 'spent' ? 'Units spent' : 'Requests refused'];
  const columns = [
    { title: 'Client' },
    ...numbers.map((name) => ({ title: name, class: 'number' })),
    { title: 'Id', class: 'wide' },
    { title: 'Actions', class: 'actions' },
  ];
  const body = h(
    'tbody',
    null,
    clients.map((client) => clientRow({ ...client, policy }, near, rows)),
  );
  return table(`Clients of ${policy}`, columns, body);
}

function clientRow(client, near, rows) {
  const buttons = clientButtons();
  const update = () => buttons.update(client);
  update();
  rows.push(update);
  const cells = near
    ? [
        percent(client.used_percent),
        `${count(client.remaining)} of ${count(client.limit)}`,
        timeOf(client.seen_at, clock(client.seen_at)),
      ]
    : [range(client.at_least, client.at_most)];
  const query = new URLSearchParams({ policy: client.policy, client: client.id });
  return h(
    'tr',
    null,
    h(
      'th',
      { scope: 'row' },
      h('a', { class: 'client', href: `#client?${query}` }, nameOf(client.client)),
      h('span', { class: 'sub' }, buttons.note),
    ),
    cells.map((cell) => h('td', { class: 'number' }, cell)),
    h('td', { class: 'wide' }, h('code', null, client.id)),
    h('td', { class: 'actions' }, buttons.element),
  );
}

/** The view of one client, by its id. */
export const one = {
  title: 'Client',
  async mount(root, parameters) {
    const policy = parameters.get('policy') ?? '';
    const id = parameters.get('client') ?? '';
    root.append(pageHead('Client', h('span', null, 'Under ', nameOf(policy), '.')));
    const box = h('div', { class: 'result' });
    root.append(box);
    const read = () => fillAsync(box, async () => [clientFacts(await post('api/keys/get', { policy, value: id }), id)]);
    await read();
    const timer = setInterval(() => {
      if (!document.hidden && !box.contains(document.activeElement)) read();
    }, REREAD_MS);
    catalog.addEventListener('change', read);
    return () => {
      clearInterval(timer);
      catalog.removeEventListener('change', read);
    };
  },
};

/** What one client has left, and the directives in force for it. */
function clientFacts(client, value) {
  const id = client.ids.length > 0 ? withPrefix(client.ids[0]) : value;
  const name = live.nameOf(client.policy, id, client.client);
  const target = { policy: client.policy, client: name, id };
  const buttons = clientButtons();
  buttons.update(target);
  const trace = `#trace?${new URLSearchParams({ policy: client.policy, client: id })}`;
  return h(
    'section',
    { class: 'client-facts' },
    h('h2', null, nameOf(name, 'long')),
    h(
      'dl',
      { class: 'facts' },
      client.ids.length > 0 && fact('Id', h('code', null, client.ids.map(withPrefix).join(', '))),
      fact('In force', inForceWords(client)),
      client.penalty_seconds !== null && fact('Penalty', `refused for another ${duration(client.penalty_seconds)}`),
    ),
    client.degraded && h('p', { class: 'warning' }, 'Redis cannot be asked: these are this gateway’s own counts.'),
    client.notes.map((note) => h('p', { class: 'hint' }, printable(note))),
    client.quotas.length > 0 && quotasTable(client.quotas),
    h(
      'div',
      { class: 'buttons start' },
      buttons.element,
      client.directives.some((item) => !isBlock(item)) &&
        h('button', { type: 'button', onclick: () => endOverride(target) }, 'End override'),
      h('button', { type: 'button', onclick: () => reset(target) }, 'Reset its windows'),
      h('a', { class: 'button', href: trace }, 'Trace its requests'),
    ),
  );
}

function inForceWords({ directives, grant }) {
  if (directives.length === 0) return grant ?? 'the policy’s quotas';
  return directives.map((item) => `${item.grant.join(', ')} until ${clock(item.until)}`).join('; ');
}

function quotasTable(quotas) {
  const columns = [
    { title: 'Quota' },
    { title: 'Left', class: 'number' },
    { title: 'More in', class: 'number' },
    { title: 'All in', class: 'number' },
  ];
  const rows = quotas.map((quota) =>
    h(
      'tr',
      null,
      h('th', { scope: 'row' }, printable(quota.quota), quota.candidate && h('span', { class: 'tag' }, 'candidate')),
      h('td', { class: 'number' }, leftOf(quota)),
      h('td', { class: 'number' }, quota.next_seconds === null ? '–' : duration(quota.next_seconds)),
      h('td', { class: 'number' }, duration(quota.reset_seconds)),
    ),
  );
  return table('Quotas of this client', columns, h('tbody', null, rows));
}

function leftOf({ remaining, limit, debt }) {
  if (debt > 0) return `−${count(debt)}`;
  return limit === null ? count(remaining) : `${count(remaining)} of ${count(limit)}`;
}
