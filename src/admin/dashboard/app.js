// Starts the page, and leads to its views.

import { session, setToken } from './api.js';
import { catalog } from './catalog.js';
import * as clients from './clients.js';
import * as explain from './explain.js';
import { announce, h, printable } from './dom.js';
import { headline } from './headline.js';
import * as keys from './keys.js';
import { followVisibility, live, showConnection } from './live.js';
import * as now from './now.js';
import * as policies from './policies.js';
import { askForToken } from './token.js';
import * as trace from './trace.js';

const VIEWS = { now, clients, client: clients.one, policies, keys, explain, trace };
// Screen readers are told the state at most this often.
const ANNOUNCE_MS_MIN = 60_000;

const content = document.getElementById('content');
let leave = null;
let visit = 0;
let asking = false;

/** Shows the view that the address names. */
async function show({ focus }) {
  if (asking) return;
  visit += 1;
  const mine = visit;
  leaveView();
  const { name, view, parameters } = addressed();
  const root = h('div', { class: `view view-${name}` });
  content.replaceChildren(root);
  document.title = `${view.title} – Tollgate`;
  markNavigation(name === 'client' ? 'clients' : name);
  const ended = await mountOrSay(view, root, parameters);
  if (mine !== visit || asking) {
    ended?.();
    return;
  }
  leave = ended ?? null;
  if (focus) {
    scrollTo(0, 0);
    content.querySelector('h1')?.focus({ preventScroll: true });
  }
}

/** The view and its parameters, from `#name?parameters`. */
function addressed() {
  const [asked, query] = location.hash.slice(1).split('?');
  const name = Object.hasOwn(VIEWS, asked) ? asked : 'now';
  return { name, view: VIEWS[name], parameters: new URLSearchParams(query) };
}

function leaveView() {
  leave?.();
  leave = null;
}

async function mountOrSay(view, root, parameters) {
  try {
    return await view.mount(root, parameters);
  } catch (error) {
    const retry = h('button', { type: 'button', onclick: () => show({ focus: true }) }, 'Try again');
    root.append(h('p', { class: 'problem-text', role: 'alert' }, error.message), retry);
    return undefined;
  }
}

function markNavigation(name) {
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

function wantToken() {
  if (asking) return;
  asking = true;
  leaveView();
  live.stop();
  for (const dialog of document.querySelectorAll('dialog')) dialog.close();
  askForToken(content, () => {
    asking = false;
    live.connect();
    catalog.readDirectives().catch(() => {});
    show({ focus: true });
  });
}

/** Tells screen readers when the kind of trouble changes, but not each new number. */
function announceHeadline() {
  let kind = 'waiting';
  let said = 0;
  live.addEventListener('step', () => {
    const state = headline(live.history, catalog.policies);
    if (state.kind === kind || Date.now() - said < ANNOUNCE_MS_MIN) return;
    kind = state.kind;
    said = Date.now();
    announce(state.before + printable(state.name, '') + state.after);
  });
  live.addEventListener('state', () => {
    if (live.state === 'lost' && live.heardAt !== null) announce('The stream is lost. The numbers are old.');
  });
}

document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  content.focus();
});
document.getElementById('forget-token').addEventListener('click', () => {
  setToken(null);
  wantToken();
});
session.addEventListener('unauthorized', wantToken);
addEventListener('hashchange', () => {
  document.getElementById('notice').replaceChildren();
  show({ focus: true });
});
showConnection();
followVisibility();
announceHeadline();
live.connect();
catalog.follow();
show({ focus: false });
