// The next matching requests, step by step, as they come.

import { stream } from './api.js';
import { catalog } from './catalog.js';
import { field, h, nameOf, printable, setText, timeOf } from './dom.js';
import { clock, count, microseconds, plural } from './format.js';
import { pageHead } from './views.js';

const TRACES_MAX = 100;
const TEXT_MAX = 20_000;
const ENDS = { count: 'all of them have come', time: 'ten minutes are over' };

export const title = 'Trace';

export async function mount(root, parameters) {
  if (catalog.policies.size === 0) await catalog.readPolicies().catch(() => {});
  const trace = new TraceView(parameters);
  root.append(pageHead(title, 'The next requests that match, step by step. Secrets are left out.'), trace.element);
  return () => trace.stop();
}

class TraceView {
  #abort = null;
  #missed = 0;
  #traced = 0;
  #status = h('p', { class: 'hint', role: 'status' }, 'Not started.');
  #list = h('ol', { class: 'traces', 'aria-label': 'Traced requests' });
  #start = h('button', { type: 'submit', class: 'primary' }, 'Start');
  #stop = h('button', { type: 'button', disabled: true, onclick: () => this.stop('You stopped it.') }, 'Stop');

  constructor(parameters) {
    this.element = h(
      'div',
      { class: 'sides' },
      this.#form(parameters),
      h('div', { class: 'result' }, this.#status, this.#list),
    );
  }

  #form(parameters) {
    const input = (id, value, more) =>
      h('input', { id, name: id, value, autocomplete: 'off', spellcheck: 'false', ...more });
    const names = [...catalog.policies.keys()].map((name) => h('option', { value: name }));
    const client = input('client', parameters.get('client') ?? '');
    const policy = input('policy', parameters.get('policy') ?? '', { list: 'policy-names' });
    const refused = h('input', { type: 'checkbox', id: 'refused', name: 'refused' });
    return h(
      'form',
      { class: 'stack', onsubmit: (event) => this.#run(event), 'aria-label': 'Which requests' },
      field('Client', client, 'As the log shows it, or id: and 32 hex digits. Empty means any.'),
      field('Policy', policy),
      h('datalist', { id: 'policy-names' }, names),
      field('Path begins with', input('path', '', { placeholder: '/v1/' })),
      field('How many', input('count', 10, { type: 'number', min: 1, max: 100, required: true })),
      h('div', { class: 'check' }, refused, h('label', { for: 'refused' }, 'Refused requests only')),
      h('div', { class: 'buttons start' }, this.#start, this.#stop),
    );
  }

  /** Ends the stream, if one runs. */
  stop(words) {
    this.#abort?.abort();
    this.#finish(words);
  }

  async #run(event) {
    event.preventDefault();
    this.stop();
    const query = Object.fromEntries(new FormData(event.target));
    if (query.refused) query.refused = 'true';
    const abort = new AbortController();
    this.#abort = abort;
    this.#missed = 0;
    this.#traced = 0;
    this.#list.replaceChildren();
    this.#start.disabled = true;
    this.#stop.disabled = false;
    setText(this.#status, 'Asking the gateway.');
    try {
      await stream('api/trace', query, {
        signal: abort.signal,
        onOpen: () => setText(this.#status, 'Waiting for requests that match.'),
        onEvent: (name, data) => this.#take(name, data),
      });
      if (this.#abort === abort) this.#finish('The gateway ended the stream.');
    } catch (error) {
      if (this.#abort === abort) this.#finish(error.message);
    }
  }

  #take(name, data) {
    if (name === 'missed') this.#missed += data;
    if (name === 'trace') {
      this.#traced += 1;
      this.#list.append(traceItem(data));
      while (this.#list.childElementCount > TRACES_MAX) this.#list.firstElementChild.remove();
    }
    if (name === 'end') this.#finish(`Ended: ${ENDS[data.reason] ?? data.reason}.`);
    else setText(this.#status, this.#counts());
  }

  #counts() {
    const missed = this.#missed > 0 ? `, ${count(this.#missed)} more came too fast to be shown` : '';
    return `${plural(this.#traced, 'request')} traced${missed}.`;
  }

  #finish(words) {
    this.#abort = null;
    this.#start.disabled = false;
    this.#stop.disabled = true;
    if (words) setText(this.#status, `${words} ${this.#counts()}`);
  }
}

function traceItem({ id, time, method, host, path, status, route, client, took_us: took, steps }) {
  const summary = h(
    'summary',
    null,
    timeOf(time, clock(time)),
    h('strong', { class: 'status', 'data-level': levelOf(status), title: status ?? 'no answer' }, status ?? '–'),
    h('span', { class: 'request' }, nameOf(`${method} ${host ?? ''}${path}`)),
    h('span', { class: 'who' }, nameOf(client)),
    h('span', { class: 'number' }, microseconds(took)),
  );
  const facts = [route && `route ${printable(route)}`, id && `request id ${printable(id)}`].filter(Boolean).join(', ');
  return h(
    'li',
    null,
    h(
      'details',
      null,
      summary,
      h('p', { class: 'hint' }, facts),
      h('ol', { class: 'trace-steps' }, steps.map(stepItem)),
    ),
  );
}

function stepItem({ at_us: at, step, text }) {
  const lines = text
    .slice(0, TEXT_MAX)
    .split('\n')
    .map((line) => (line === '' ? '' : printable(line)));
  return h(
    'li',
    null,
    h('span', { class: 'number' }, microseconds(at)),
    h('strong', null, step),
    h('span', { class: 'step-text' }, lines.join('\n')),
  );
}

function levelOf(status) {
  if (status === null || status >= 500) return 'bad';
  return status >= 400 ? 'warn' : 'ok';
}
