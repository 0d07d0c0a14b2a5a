// The stream of /api/live: one for the whole page, reconnected with a bounded back-off.

import { hasToken, stream } from './api.js';
import { History } from './history.js';

const HIDDEN_MS = 60_000;
const BACKOFF_MS = [1_000, 2_000, 4_000, 8_000, 15_000];

/** What the gateway reports, and whether it still does. Dispatches `step` and `state`. */
class Live extends EventTarget {
  history = new History();
  /** The data of the latest step, or null. */
  latest = null;
  /** `connecting`, `open`, `lost` or `stopped`. */
  state = 'connecting';
  /** Why the stream is lost. */
  problem = '';
  /** When the latest step arrived, by this machine's clock. */
  heardAt = null;
  /** When the next attempt is made, by this machine's clock. */
  retryAt = null;
  #attempts = 0;
  #timer = 0;
  #abort = new AbortController();

  /** Connects now; ends a stream that is already open. */
  connect() {
    this.stop();
    this.#abort = new AbortController();
    this.#enter(this.#attempts === 0 ? 'connecting' : 'lost');
    this.#read(this.#abort.signal);
  }

  /** Ends the stream until `connect`. */
  stop() {
    clearTimeout(this.#timer);
    this.#abort.abort();
    this.retryAt = null;
    this.#enter('stopped');
  }

  /** How the log shows a client that is in the latest lists; `fallback` if it is in none. */
  nameOf(policy, id, fallback) {
    const { refused = [], nearest = [] } = this.latest?.top ?? {};
    const known = [...refused, ...nearest].find((item) => item.id === id && item.policy === policy);
    return known?.client ?? fallback;
  }

  async #read(signal) {
    try {
      await stream('api/live', {}, { signal, onEvent: (name, data) => this.#take(name, data) });
      this.#lose('The gateway ended the stream.', signal);
    } catch (error) {
      if (error.status === 401) this.stop();
      else this.#lose(error.message || 'The stream broke.', signal);
    }
  }

  #take(name, data) {
    this.heardAt = Date.now();
    if (name === 'history') {
      this.history.load(data);
    } else if (name === 'step') {
      this.latest = data;
      this.history.push(data);
    } else {
      return;
    }
    this.#attempts = 0;
    if (this.state !== 'open') this.#enter('open');
    this.dispatchEvent(new Event('step'));
  }

  #lose(problem, signal) {
    if (signal.aborted) return;
    const wait = BACKOFF_MS[Math.min(this.#attempts, BACKOFF_MS.length - 1)] * (0.75 + Math.random() / 2);
    this.#attempts += 1;
    this.problem = problem;
    this.retryAt = Date.now() + wait;
    this.#timer = setTimeout(() => this.connect(), wait);
    this.#enter('lost');
  }

  #enter(state) {
    this.state = state;
    this.dispatchEvent(new Event('state'));
  }
}

export const live = new Live();

/** Shows in the bar whether the numbers are live, and how old they are. */
export function showConnection() {
  const box = document.getElementById('connection');
  const text = document.getElementById('connection-text');
  const retry = document.getElementById('connection-retry');
  const show = () => {
    box.dataset.state = live.state;
    const words = connectionText();
    if (text.textContent !== words) text.textContent = words;
    retry.hidden = live.state !== 'lost' || live.retryAt === null;
    document.getElementById('forget-token').hidden = !hasToken();
  };
  retry.addEventListener('click', () => live.connect());
  live.addEventListener('state', show);
  live.addEventListener('step', show);
  setInterval(show, 1_000);
  show();
}

/** Closes the stream while the page is hidden, because a browser has few connections to a host. */
export function followVisibility() {
  let timer = 0;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => live.stop(), HIDDEN_MS);
    else if (live.state === 'stopped') live.connect();
  });
}

function connectionText() {
  const age = live.heardAt === null ? null : Math.floor((Date.now() - live.heardAt) / 1_000);
  if (live.state === 'open') return `Live, ${age} s old`;
  if (live.state === 'stopped') return 'Not connected';
  if (live.state === 'connecting') return 'Connecting';
  const next = live.retryAt === null ? 'connecting' : `next try in ${secondsUntil(live.retryAt)} s`;
  return age === null ? `${live.problem} ${upperFirst(next)}` : `Stream lost, data ${age} s old, ${next}`;
}

const secondsUntil = (ms) => Math.max(0, Math.ceil((ms - Date.now()) / 1_000));
const upperFirst = (text) => text[0].toUpperCase() + text.slice(1);
