// The state of the gateway itself: the store, the endpoints, the last reload.

import { fact } from './actions.js';
import { h, nameOf, setAttribute, setText, table } from './dom.js';
import { clock, count, duration, plural, rate, secondsSince } from './format.js';
import { showReload } from './reload.js';

const TROUBLED_MAX = 20;
const SERVERS_MAX = 20;

const BREAKERS = {
  closed: 'closed: asked as usual',
  open: 'open: not asked, because it failed',
  half_open: 'half open: one call at a time tries it',
};

const RESULTS = {
  applied: ['ok', 'Applied'],
  mistakes: ['bad', 'Rejected'],
  unreadable: ['bad', 'Rejected'],
};

/** Four fixed places: the store, the endpoints, the last reload, the process. */
export class StatusStrip {
  #cells = {};
  constructor() {
    this.element = h('dl', { class: 'strip' });
    const reload = h('button', { type: 'button', class: 'quiet', onclick: showReload }, 'Details…');
    this.#add('store', 'Store');
    this.#add('endpoints', 'Endpoints');
    this.#add('reload', 'Last reload', reload);
    this.#add('gateway', 'Gateway');
  }

  show(step) {
    const { store, endpoints, reload, overview } = step;
    this.#set('store', ...storeState(store), store.text);
    this.#set('endpoints', ...endpointState(endpoints));
    this.#set('reload', ...reloadState(reload));
    this.#set('gateway', ...gatewayState(overview));
  }

  #add(name, title, ...more) {
    const state = h('strong', { class: 'state' });
    const text = h('span', { class: 'state-text' });
    this.#cells[name] = { state, text };
    this.element.append(fact(title, state, ' ', text, more));
  }

  #set(name, level, state, text = '') {
    const cell = this.#cells[name];
    setAttribute(cell.state, 'data-level', level);
    setText(cell.state, state);
    setText(cell.text, text);
    setAttribute(cell.text, 'title', text);
  }
}

function storeState({ kind, state }) {
  const name = kind === 'redis' ? 'Redis' : 'Memory';
  const level = { ok: 'ok', degraded: 'warn', down: 'bad' }[state] ?? 'warn';
  return [level, `${name}, ${state}`];
}

function endpointState({ total, available, troubled }) {
  if (total === 0) return ['ok', 'None', 'The gateway answers by itself.'];
  const state = `${available} of ${total} available`;
  const first = troubled[0];
  const text = first
    ? `${first.upstream}: ${first.name}${troubled.length > 1 ? `, ${troubled.length - 1} more` : ''}`
    : '';
  const level = available === 0 ? 'bad' : troubled.length > 0 || available < total ? 'warn' : 'ok';
  return [level, state, text || 'No request or check fails.'];
}

function reloadState(reload) {
  if (!reload) return ['ok', 'None', 'since the start'];
  const [level, words] = RESULTS[reload.result] ?? ['warn', reload.result];
  return [level, `${words} at ${clock(reload.time)}`, reload.text];
}

function gatewayState({ version, started, time, ready, connections, configuration }) {
  const up = duration(secondsSince(started, Date.parse(time)));
  const text = `up ${up}, ${plural(connections, 'connection')}, ${configuration.file ?? 'no file'}`;
  return ready ? ['ok', `Ready, ${version}`, text] : ['bad', `Not ready, ${version}`, text];
}

/** The endpoints in trouble, and the servers of the store with what they decide. */
export class TroubleTables {
  #endpoints = h('tbody');
  #noEndpoints = h('p', { class: 'none', hidden: true }, 'No endpoint is in trouble.');
  #more = h('p', { class: 'hint' });
  #store = h('div', { class: 'slots slots-5' });
  #shown = '';

  constructor() {
    const columns = [{ title: 'Endpoint' }, { title: 'What is wrong' }];
    const endpoints = table('Endpoints in trouble', columns, this.#endpoints);
    this.elements = [
      titled(
        'trouble',
        'Endpoints in trouble',
        h('div', { class: 'slots slots-5' }, endpoints, this.#noEndpoints),
        this.#more,
      ),
      titled('store', 'Store', this.#store),
    ];
  }

  show({ endpoints, store }) {
    const shown = JSON.stringify([endpoints.troubled, store]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#endpoints.replaceChildren(...endpoints.troubled.slice(0, TROUBLED_MAX).map(endpointRow));
    this.#noEndpoints.hidden = endpoints.troubled.length > 0;
    const hidden = endpoints.troubled.length - TROUBLED_MAX;
    setText(this.#more, hidden > 0 ? `${count(hidden)} more; all of them are at /api/upstreams.` : '');
    this.#store.replaceChildren(storeFacts(store));
  }
}

const titled = (id, name, ...content) =>
  h('section', { 'aria-labelledby': id }, h('div', { class: 'section-head' }, h('h2', { id }, name)), content);

function endpointRow({ upstream, name, available, text, ejected_until: ejectedUntil, failing_since: failingSince }) {
  const since = failingSince && ` Fails since ${clock(failingSince)}.`;
  const until = ejectedUntil && ` Left out until ${clock(ejectedUntil)}.`;
  const level = available ? 'warn' : 'bad';
  const state = h('strong', { class: 'state', 'data-level': level }, available ? 'In use.' : 'Not in use.');
  return h(
    'tr',
    null,
    h('th', { scope: 'row' }, nameOf(name), h('span', { class: 'sub' }, nameOf(upstream))),
    h('td', { class: 'words' }, state, text ? ` ${text}` : [since, until]),
  );
}

function storeFacts({ kind, text, servers, decisions_per_second: decisions }) {
  const shown = (servers ?? []).slice(0, SERVERS_MAX).map(({ name, breaker }) => {
    const level = { closed: 'ok', open: 'bad' }[breaker] ?? 'warn';
    return fact(
      nameOf(name),
      h('span', { class: 'state', 'data-level': level }, `Breaker ${BREAKERS[breaker] ?? breaker}`),
    );
  });
  const rates = Object.entries(decisions ?? {}).map(([how, number]) => `${how} ${rate(number)}`);
  return h(
    'dl',
    { class: 'facts' },
    fact(kind === 'redis' ? 'Redis' : 'Memory', text),
    shown,
    rates.length > 0 && fact('Decisions a second', rates.join(', ')),
  );
}
