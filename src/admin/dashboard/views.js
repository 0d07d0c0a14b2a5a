// What all views need: where they lead, how they begin, and how they show what they have read.

import { h } from './dom.js';

// How many items of a list are shown at first, and with each press of its button.
const PART = 50;

/** Leads to a view with parameters. */
export function go(view, parameters) {
  const hash = `#${view}?${new URLSearchParams(parameters)}`;
  if (location.hash === hash) dispatchEvent(new HashChangeEvent('hashchange'));
  else location.hash = hash;
}

/** The heading of a view. */
export function pageHead(title, hint) {
  return h('div', { class: 'page-head' }, h('h1', { tabindex: -1 }, title), hint && h('p', { class: 'hint' }, hint));
}

/** Fills a box with the elements that `read` resolves to, or with what went wrong and a way to try again. */
export async function fillAsync(box, read) {
  box.setAttribute('aria-busy', 'true');
  try {
    const content = await read();
    keepFocus(box, () => box.replaceChildren(...content));
  } catch (error) {
    if (error.name === 'AbortError') return;
    const retry = h('button', { type: 'button', onclick: () => fillAsync(box, read) }, 'Try again');
    box.replaceChildren(h('p', { class: 'problem-text', role: 'alert' }, error.message), retry);
  } finally {
    box.removeAttribute('aria-busy');
  }
}

const FOCUSABLE = 'a, button, input, summary';

/** Changes what is in a box; if the focus was in it, it stays at the same place. */
export function keepFocus(box, change) {
  const place = [...box.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  change();
  if (place < 0) return;
  const places = [...box.querySelectorAll(FOCUSABLE)];
  (places[Math.min(place, places.length - 1)] ?? document.querySelector('main h1')).focus({ preventScroll: true });
}

/**
 * A list that is shown in parts and can be searched: each press of its button shows `PART` items more. Returns the
 * element, and `show(items)` for other items.
 */
export function searchable({ id, label, noun, items, matches, rows, find = '' }) {
  const input = h('input', { id, type: 'search', value: find, autocomplete: 'off', oninput: () => draw(PART) });
  const summary = h('span', { class: 'unit' });
  const search = h('div', { class: 'search' }, h('label', { for: id }, label), input, summary);
  const list = h('div');
  const more = h('button', { type: 'button', class: 'quiet more', onclick: () => draw(limit + PART) }, 'Show more');
  let all = items;
  let limit = PART;
  const draw = (most) => {
    limit = most;
    search.hidden = all.length === 0;
    const words = input.value.trim().toLowerCase();
    const found = words === '' ? all : all.filter((item) => matches(item).toLowerCase().includes(words));
    const content = found.length > 0 ? rows(found.slice(0, limit)) : h('p', { class: 'none' }, `There are no ${noun}.`);
    keepFocus(list, () => list.replaceChildren(content));
    more.hidden = found.length <= limit;
    summary.textContent = `${Math.min(found.length, limit)} of ${all.length} ${noun}`;
  };
  const show = (others) => {
    all = others;
    draw(limit);
  };
  draw(PART);
  return { element: h('div', null, search, list, more), show };
}
