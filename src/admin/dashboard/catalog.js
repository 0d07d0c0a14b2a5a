// What the page knows apart from the stream: the policies of the file, and the directives in force.

import { get } from './api.js';
import { live } from './live.js';

const REFRESH_MS = 15_000;
// With many directives the list is large, so it is read less often.
const REFRESH_LARGE_MS = 120_000;
const LARGE = 500;

/** Policies by name, and directives by client. Dispatches `change`. */
class Catalog extends EventTarget {
  /** @type {Map<string, object>} */
  policies = new Map();
  /** Directives in force, as `GET /api/keys` lists them. */
  directives = [];
  #byClient = new Map();
  #reload = null;
  #timer = 0;

  /** Starts to follow the gateway: reads the policies after each reload, the directives from time to time. */
  follow() {
    this.readPolicies().catch(() => {});
    this.#poll();
    live.addEventListener('step', () => {
      const reload = live.latest?.reload?.time ?? null;
      if (reload !== this.#reload) this.readPolicies().catch(() => {});
      this.#reload = reload;
    });
  }

  async readPolicies() {
    const { policies } = await get('api/policies');
    this.policies = new Map(policies.map((policy) => [policy.name, policy]));
    this.dispatchEvent(new Event('change'));
    return policies;
  }

  async readDirectives() {
    const { directives } = await get('api/keys');
    this.directives = directives;
    this.#byClient = new Map();
    for (const directive of directives) {
      for (const id of directive.ids) this.#note(directive, `${directive.policy ?? ''} ${withPrefix(id)}`);
    }
    this.dispatchEvent(new Event('change'));
    return directives;
  }

  /** The directives in force for one client of one policy: `{ block, override }`, each a directive or undefined. */
  inForce(policy, id) {
    const own = this.#byClient.get(`${policy} ${id}`) ?? {};
    const everywhere = this.#byClient.get(` ${id}`) ?? {};
    return { block: own.block ?? everywhere.block, override: own.override ?? everywhere.override };
  }

  #note(directive, key) {
    const kind = isBlock(directive) ? 'block' : 'override';
    this.#byClient.set(key, { ...this.#byClient.get(key), [kind]: directive });
  }

  #poll() {
    clearTimeout(this.#timer);
    const again = () => {
      this.#timer = setTimeout(() => this.#poll(), this.directives.length > LARGE ? REFRESH_LARGE_MS : REFRESH_MS);
    };
    if (document.hidden || live.state === 'stopped') again();
    else this.readDirectives().then(again, again);
  }
}

/** Whether a directive refuses its clients. */
export const isBlock = (directive) => directive.grant.length === 1 && directive.grant[0] === 'blocked';

/** A partition id as calls take it. */
export const withPrefix = (id) => (id.startsWith('id:') ? id : `id:${id}`);

export const catalog = new Catalog();
