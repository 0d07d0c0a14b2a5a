// Blocking, raising and unblocking one client: the dialogs, the calls, and what is said about them.

import { post } from './api.js';
import { catalog } from './catalog.js';
import { field, h, nameOf, printable, select, timeOf } from './dom.js';
import { clock, quotasOf } from './format.js';

const TIMES = [
  ['15m', '15 minutes'],
  ['1h', '1 hour'],
  ['8h', '8 hours'],
  ['1d', '1 day'],
  ['7d', '7 days'],
];

/** Shows a sentence at the foot of the window until the next one, and tells screen readers. */
export function say(text, isProblem = false) {
  const notice = document.getElementById('notice');
  const close = h('button', { type: 'button', class: 'quiet', onclick: () => notice.replaceChildren() }, 'Dismiss');
  notice.classList.toggle('problem', isProblem);
  notice.replaceChildren(h('p', null, printable(text)), close);
}

/** Asks for how long, and blocks the client. `target` is `{ policy, client, id }`. */
export function block(target) {
  // An id names a client of one policy alone.
  const byId = target.id.startsWith('id:');
  const everywhere = h('input', { type: 'checkbox', id: 'everywhere' });
  openDialog({
    title: 'Block client',
    target,
    about: 'Its requests are refused with 403 until the time is over or somebody unblocks it.',
    fields: [
      times('1h', { autofocus: true }),
      !byId &&
        h('div', { class: 'check' }, everywhere, h('label', { for: 'everywhere' }, 'Under every policy that knows it')),
    ],
    verb: (time) => `Block for ${time}`,
    send: (time) => post('api/keys/block', { ...named(target), for: time, everywhere: everywhere.checked }),
  });
}

/** Asks for other quotas and for how long, and sets them. */
export function raise(target) {
  const own = quotasOf(catalog.policies.get(target.policy));
  const quota = h('input', {
    id: 'quota',
    required: true,
    value: doubled(own),
    autocomplete: 'off',
    spellcheck: 'false',
  });
  openDialog({
    title: 'Raise quota',
    target,
    about: own && `The policy’s own: ${own}.`,
    fields: [
      field('Quotas for a time', quota, 'In place of the policy’s own. Several with commas, or “unlimited”.'),
      times('1h'),
    ],
    verb: (time) => `Raise for ${time}`,
    send: (time) => post('api/keys/set', { ...named(target), quota: quotaList(quota.value), for: time }),
  });
}

/** Ends the blocks of a client. */
export function unblock(target) {
  return act(() => post('api/keys/unblock', named(target)), target);
}

/** Ends the quotas that were set for a client. */
export function endOverride(target) {
  return act(() => post('api/keys/set', { ...named(target), end: true }), target);
}

/** Begins all windows of a client afresh. */
export function reset(target) {
  return act(() => post('api/keys/reset', named(target)), target);
}

/** Makes a call that changes something, and shows the result. */
export async function act(call, target) {
  try {
    sayDone(await call(), target);
  } catch (error) {
    say(error.message, true);
  }
  await catalog.readDirectives().catch(() => {});
}

/** Says what was done, for the client as the page shows it: the gateway may know only its id. */
function sayDone(answer, target) {
  const done = answer.done.replace(answer.client, () => target.client);
  const until = answer.until ? ` until ${clock(answer.until)}` : '';
  const under = answer.policies[0] === 'everywhere' ? 'every policy' : answer.policies.join(', ');
  const notes = answer.notes.map((note) => ` ${note}.`).join('');
  say(`${done[0].toUpperCase()}${done.slice(1)}${under && ` under ${under}`}${until}.${notes}`);
}

const named = ({ policy, id }) => ({ policy, value: id });

/** A proposal: twice the numbers of the policy's own quotas. */
const doubled = (quotas) => (/^\d/.test(quotas) ? quotas.replace(/(^|, )(\d+)/g, (_, comma, n) => comma + 2 * n) : '');

function quotaList(text) {
  const quotas = text.split(',').map((quota) => quota.trim());
  return quotas.length === 1 ? quotas[0] : quotas;
}

/** Radio buttons for the usual times, and a field for another one. */
function times(chosen, more) {
  const other = h('input', {
    id: 'other-time',
    'aria-label': 'Another time, such as 90m or 36h',
    placeholder: '90m',
    size: 6,
    autocomplete: 'off',
    oninput: () => (other.closest('fieldset').querySelector('[value=other]').checked = true),
  });
  const options = TIMES.map(([value, text]) => radio(value, text, value === chosen && { checked: true, ...more }));
  return h(
    'fieldset',
    { class: 'times' },
    h('legend', null, 'For how long'),
    options,
    h('div', { class: 'other' }, radio('other', 'Another:'), other),
  );
}

function radio(value, text, more) {
  return h('label', null, h('input', { type: 'radio', name: 'time', value, ...more }), text);
}

function timeChosen(form) {
  const value = new FormData(form).get('time');
  return value === 'other' ? form.querySelector('#other-time').value.trim() : value;
}

/** Opens a dialog about a client that sends something for a time; it stays open if the gateway refuses. */
function openDialog({ title, target, about, fields, verb, send }) {
  const problem = h('p', { class: 'problem-text', role: 'alert' });
  const confirm = h('button', { type: 'submit', class: 'primary' });
  const cancel = h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel');
  const form = h(
    'form',
    { onsubmit: submit, oninput: showVerb },
    h('h2', { id: 'dialog-title' }, title),
    h('dl', { class: 'facts' }, fact('Client', nameOf(target.client, 'long')), fact('Policy', nameOf(target.policy))),
    about && h('p', { class: 'hint' }, about),
    modeWarning(target.policy),
    fields,
    problem,
    h('div', { class: 'buttons' }, confirm, cancel),
  );
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title', onclose: () => dialog.remove() }, form);

  function showVerb() {
    const value = timeChosen(form);
    confirm.textContent = verb(TIMES.find(([time]) => time === value)?.[1] ?? (value || '…'));
  }

  async function submit(event) {
    event.preventDefault();
    confirm.disabled = true;
    problem.textContent = '';
    try {
      sayDone(await send(timeChosen(form)), target);
      await catalog.readDirectives().catch(() => {});
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
    } finally {
      confirm.disabled = false;
    }
  }

  document.body.append(dialog);
  showVerb();
  dialog.showModal();
}

export const fact = (name, ...value) => h('div', null, h('dt', null, name), h('dd', null, value));

function modeWarning(name) {
  const mode = catalog.policies.get(name)?.mode ?? 'enforce';
  return mode !== 'enforce' && h('p', { class: 'warning' }, `This policy is in ${mode}: it refuses nobody.`);
}

/** The buttons of a client's row; they follow the directives in force. Returns `{ element, note, update(target) }`. */
export function clientButtons() {
  let target = null;
  const first = h('button', { type: 'button', onclick: () => (inForce().block ? end() : block(target)) });
  const second = h('button', { type: 'button', onclick: () => raise(target) }, 'Raise…');
  const note = h('span', { class: 'force' });
  const inForce = () => catalog.inForce(target.policy, target.id);
  const end = async () => {
    first.disabled = true;
    await unblock(target);
    first.disabled = false;
    first.focus();
  };
  const update = (item) => {
    target = item;
    const { block: blocked, override } = inForce();
    const client = printable(item.client);
    relabel(first, blocked ? 'Unblock' : 'Block…', client);
    relabel(second, 'Raise…', client);
    showForce(note, blocked, override);
  };
  return { element: h('div', { class: 'row-buttons' }, first, second), note, update };
}

function relabel(button, text, client) {
  const label = `${text} ${client.slice(0, 80)}`;
  if (button.getAttribute('aria-label') === label) return;
  button.textContent = text;
  button.setAttribute('aria-label', label);
}

function showForce(note, blocked, override) {
  const directive = blocked ?? override;
  const state = directive ? `${blocked ? 'blocked' : override.grant.join(', ')} until ${clock(directive.until)}` : '';
  if (note.textContent === state) return;
  note.replaceChildren(...(directive ? [timeOf(directive.until, state)] : []));
  note.classList.toggle('blocked', Boolean(blocked));
}

/** Asks for a policy and a value as they are written in the file, then goes on with `block`, `raise` or `unblock`. */
export async function chooseTarget(title, next) {
  if (catalog.policies.size === 0) await catalog.readPolicies();
  const names = [...catalog.policies.keys()];
  const policy = select(
    'target-policy',
    names.map((name) => [name, name]),
  );
  const value = h('input', { id: 'target-value', required: true, autocomplete: 'off', spellcheck: 'false' });
  const hint = 'As in overrides: 203.0.113.0/24, live_*, header:x-tenant=acme, or id: and 32 hex digits.';
  const submit = (event) => {
    event.preventDefault();
    dialog.close();
    next({ policy: policy.value, client: value.value.trim(), id: value.value.trim() });
  };
  const form = h(
    'form',
    { onsubmit: submit },
    h('h2', { id: 'target-title' }, title),
    field('Policy', policy),
    field('Client', value, hint),
    h(
      'div',
      { class: 'buttons' },
      h('button', { type: 'submit', class: 'primary' }, 'Next'),
      h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'),
    ),
  );
  const dialog = h('dialog', { 'aria-labelledby': 'target-title', onclose: () => dialog.remove() }, form);
  document.body.append(dialog);
  dialog.showModal();
}
