// The result of the last reload, what the next one would do, and the button for it.

import { get, post } from './api.js';
import { say } from './actions.js';
import { h, printable } from './dom.js';
import { clock, count, plural } from './format.js';

const LINES_MAX = 100;

/** Opens a dialog with the last reload and a preview of the next one. */
export async function showReload() {
  const last = h('div', null, 'Reading…');
  const next = h('div', { 'aria-live': 'polite' });
  const preview = h('button', { type: 'button', onclick: () => fillWith(next, previewed) }, 'Preview a reload');
  const reload = h('button', { type: 'button', onclick: () => reloadNow(dialog) }, 'Reload now');
  const close = h('button', { type: 'button', onclick: () => dialog.close() }, 'Close');
  const dialog = h(
    'dialog',
    { class: 'broad', 'aria-labelledby': 'reload-title', onclose: () => dialog.remove() },
    h('h2', { id: 'reload-title' }, 'Last reload'),
    last,
    next,
    h('div', { class: 'buttons' }, close, preview, reload),
  );
  document.body.append(dialog);
  dialog.showModal();
  await fillWith(last, async () => {
    const answer = await get('api/reload');
    return answer.last ? outcome(answer.last, 'The file was applied') : [h('p', null, 'None since the start.')];
  });
}

async function fillWith(box, read) {
  try {
    box.replaceChildren(...(await read()));
  } catch (error) {
    const report = error.problem?.report ? [h('pre', null, error.problem.report)] : [];
    box.replaceChildren(h('p', { class: 'problem-text' }, error.message), ...report);
  }
}

async function previewed() {
  const answer = await get('api/reload/preview');
  const known = answer.known_clients;
  const clients = known && [
    `${count(known.refused)} of ${plural(known.known, 'known client')} would be refused with the new file,`,
    `${count(known.refused_already)} are refused with the running one.`,
  ];
  return [
    h('h3', null, 'A reload now'),
    ...outcome(answer, 'The file can be applied'),
    clients && h('p', null, clients.join(' ')),
  ].filter(Boolean);
}

/** Says what a reload has changed or would change. */
function outcome(reload, applied) {
  const when = `${clock(reload.time)}, by ${printable(reload.source)}`;
  if (reload.result === 'mistakes') {
    return [
      h('p', null, `${when}: the file has mistakes, so the old configuration stays.`),
      h('pre', null, reload.report),
    ];
  }
  if (reload.result === 'unreadable') {
    return [
      h('p', null, `${when}: the file cannot be read (${printable(reload.error)}), so the old configuration stays.`),
    ];
  }
  return [
    h('p', null, `${when}. ${applied}: ${plural(reload.changes.length, 'change')}.`),
    ...lines('Changes', reload.changes),
    ...lines('Needs a restart, and keeps its old value until then', reload.needs_restart),
    ...lines('Warnings', reload.warnings),
  ];
}

function lines(title, items) {
  if (items.length === 0) return [];
  const shown = items.slice(0, LINES_MAX).map((item) => h('li', null, printable(item)));
  const hidden = items.length - shown.length;
  return [h('h3', null, title), h('ul', null, shown, hidden > 0 && h('li', null, `${count(hidden)} more`))];
}

async function reloadNow(dialog) {
  try {
    const answer = await post('api/reload', {});
    say(`Reloaded: ${plural(answer.changes.length, 'change')}.`);
    dialog.close();
  } catch (error) {
    const [box] = dialog.querySelectorAll('div');
    await fillWith(box, () => Promise.reject(error));
  }
}
