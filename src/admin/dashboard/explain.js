// What a request would meet now, and why.

import { get, post } from './api.js';
import { fact } from './actions.js';
import { announce, field, h, nameOf, printable, select, table } from './dom.js';
import { count, duration, plural } from './format.js';
import { fillAsync, pageHead } from './views.js';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'];
const WHY_NOT = {
  host: 'another host',
  path: 'another path',
  method: 'another method',
  method_case: 'the method is written in another case',
  header_value: 'another value of a header',
  header_missing: 'a header is missing',
  less_specific: 'matches too, but is less specific',
};

const WINDOWS = { 1: 'second', 60: 'minute', 3600: 'hour', 86400: 'day' };

export const title = 'Explain';

export async function mount(root) {
  const url = h('input', { id: 'url', required: true, value: '/', autocomplete: 'off', spellcheck: 'false' });
  const method = h('input', { id: 'method', list: 'methods', value: 'GET', size: 8, autocomplete: 'off' });
  const from = h('input', { id: 'from', placeholder: '127.0.0.1', autocomplete: 'off' });
  const listener = select('listener', [['', 'by the URL']]);
  const headers = h('textarea', { id: 'headers', rows: 4, spellcheck: 'false', autocomplete: 'off' });
  const box = h('div', { class: 'result' });
  const ask = (event) => {
    event.preventDefault();
    fillAsync(box, async () => {
      const request = {
        url: url.value.trim(),
        method: method.value.trim() || null,
        headers: headerPairs(headers.value),
        from: from.value.trim() || null,
        listener: listener.value || null,
      };
      return explained(await post('api/explain', request));
    });
  };
  root.append(
    pageHead(title, 'What a request would meet now, and why. It spends nothing.'),
    h(
      'div',
      { class: 'sides' },
      h(
        'form',
        { class: 'stack', onsubmit: ask, 'aria-label': 'Request' },
        field('URL or path', url),
        field('Method', method),
        h(
          'datalist',
          { id: 'methods' },
          METHODS.map((name) => h('option', { value: name })),
        ),
        field('Headers', headers, 'One a line, such as x-api-key: live_123'),
        field('From', from, 'The other end of the connection: a client, or a proxy.'),
        field('Listener', listener),
        h('button', { type: 'submit', class: 'primary' }, 'Explain'),
      ),
      box,
    ),
  );
  const { listeners } = await get('api/connections').catch(() => ({ listeners: [] }));
  listener.append(...listeners.map(({ name }) => h('option', { value: name }, name)));
}

function headerPairs(text) {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const colon = line.indexOf(':');
      if (colon < 1) throw new Error(`“${line}” is not a header; expected name: value.`);
      return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    });
}

function explained(answer) {
  const [level, words] = verdict(answer);
  announce(words);
  return [
    h('h2', { class: 'verdict', 'data-level': level }, words),
    h('dl', { class: 'facts' }, requestFacts(answer)),
    h('h3', null, 'Policies, in order'),
    answer.policies.length === 0
      ? h('p', { class: 'none' }, 'No policy applies.')
      : h('ol', { class: 'steps' }, answer.policies.map(policyStep)),
    answer.other_routes.length > 0 && otherRoutes(answer),
    answer.notes.map((note) => h('p', { class: 'hint' }, printable(note))),
    h('h3', null, 'All of it'),
    h('pre', { tabindex: 0, 'aria-label': 'The explanation as text' }, answer.text),
  ]
    .flat()
    .filter(Boolean);
}

function verdict({ refused, live }) {
  if (refused) {
    const by = refused.policy ? ` by ${printable(refused.policy)}` : '';
    const why = refused.detail ? `: ${printable(refused.detail).replace(/\.?$/, '.')}` : '.';
    const retry = refused.retry_after_seconds === null ? '' : ` Retry after ${refused.retry_after_seconds} s.`;
    return ['bad', `Refused with ${refused.status} (${refused.reason})${by}${why}${retry}`];
  }
  if (live?.delay_seconds > 0) return ['warn', `Admitted now, after a delay of ${duration(live.delay_seconds)}.`];
  if (live?.admitted) return ['ok', `Admitted now${live.degraded ? ', by this gateway’s own counts' : ''}.`];
  return ['ok', 'Nothing refuses it before its quotas are asked.'];
}

function requestFacts({ method, target, host, path, listener, client, route }) {
  return [
    fact('Request', h('code', null, printable(`${method} ${target}`)), host ? ` at ${printable(host)}` : ''),
    path !== null && fact('Normalised path', h('code', null, printable(path))),
    fact('Client', h('code', null, client.address ?? 'unknown'), clientWhy(client)),
    fact('Listener', nameOf(listener.name)),
    route ? fact('Route', nameOf(route.name), ' → ', nameOf(route.upstream)) : fact('Route', 'none'),
  ];
}

function clientWhy({ named_by_field: named, field: header, peer_trusted: trusted, peer_assumed: assumed }) {
  if (named) return `, named by ${header} of a trusted proxy`;
  const peer = assumed ? ', the assumed peer' : ', the peer';
  if (!header) return peer;
  return trusted
    ? `${peer}: it is trusted, but ${header} names nobody`
    : `${peer}: it is not trusted, so ${header} is not believed`;
}

function policyStep({ name, mode, client, id, outcome, override, quotas, cost }) {
  return h(
    'li',
    null,
    h(
      'div',
      { class: 'section-head' },
      h('h4', null, nameOf(name, 'long')),
      mode !== 'enforce' && h('span', { class: 'tag' }, mode),
      h('strong', { class: 'state', 'data-level': levelOf(outcome) }, outcome?.replaceAll('_', ' ') ?? 'not reached'),
    ),
    h(
      'dl',
      { class: 'facts' },
      fact('Client', clientLink(name, client, id)),
      override && fact('Override', printable(override)),
      cost && fact(`Cost in ${cost.unit}`, `${cost.at_least ? 'at least ' : ''}${count(cost.units)}`),
    ),
    quotas.length > 0 && quotasTable(name, quotas),
  );
}

const clientLink = (policy, client, id) =>
  id
    ? h('a', { href: `#client?${new URLSearchParams({ policy, client: id })}` }, nameOf(client, 'long'))
    : nameOf(client, 'long');

function levelOf(outcome) {
  if (outcome === null) return 'none';
  if (outcome === 'admitted' || outcome === 'unlimited' || outcome === 'skipped') return 'ok';
  return outcome === 'shadow_refused' || outcome === 'marked' ? 'warn' : 'bad';
}

function quotasTable(policy, quotas) {
  const columns = [
    { title: 'Quota' },
    { title: 'Left', class: 'number' },
    { title: 'Fits in', class: 'number' },
    { title: 'All in', class: 'number' },
  ];
  const rows = quotas.map((quota) =>
    h(
      'tr',
      null,
      h('th', { scope: 'row' }, quotaWords(quota), quota.candidate && h('span', { class: 'tag' }, 'candidate')),
      h('td', { class: 'number' }, leftWords(quota)),
      h('td', { class: 'number' }, fitsWords(quota.left)),
      h('td', { class: 'number' }, quota.left ? duration(quota.left.reset_seconds) : '–'),
    ),
  );
  return table(`Quotas of ${policy}`, columns, h('tbody', null, rows));
}

function quotaWords({ kind, limit, window_seconds: window, algorithm }) {
  if (kind === 'in_flight') return `${count(limit)} in flight`;
  if (kind !== 'quota') return kind;
  return `${count(limit)} per ${WINDOWS[window] ?? duration(window)}, ${algorithm}`;
}

function leftWords({ kind, left, limit }) {
  if (!left || kind === 'penalty') return '–';
  if (left.debt > 0) return `−${count(left.debt)}`;
  return limit === null ? count(left.remaining) : `${count(left.remaining)} of ${count(limit)}`;
}

function fitsWords(left) {
  if (!left) return '–';
  if (left.fits) return 'now';
  return left.fits_in_seconds === null ? 'never' : duration(left.fits_in_seconds);
}

function otherRoutes({ other_routes: routes, more_routes: more }) {
  const items = routes.map(({ route, why_not: why, header }) =>
    h('li', null, nameOf(route, 'long'), `: ${WHY_NOT[why] ?? why}${header ? ` (${printable(header)})` : ''}`),
  );
  return h(
    'details',
    null,
    h('summary', null, `Why not ${plural(routes.length + more, 'other route')}`),
    h('ul', null, items, more > 0 && h('li', null, `${count(more)} more`)),
  );
}
