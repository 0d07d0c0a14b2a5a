// Builds elements. Data reaches the page as text only, never as markup.

const SVG = 'http://www.w3.org/2000/svg';

/**
 * Makes an element. Functions among the properties listen (`onclick`), booleans are attributes that are there or not,
 * everything else is an attribute.
 */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Makes an SVG element. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (typeof value === 'function') {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, '');
    } else if (value !== false && value != null) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat(2).filter((child) => child != null && child !== false));
  return element;
}

/** Sets text only if it differs, so that selections and screen readers are left alone. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Tells screen readers, and nobody else. */
export function announce(text) {
  setText(document.getElementById('announcer'), text);
}

/** Sets or removes an attribute, only if it differs. */
export function setAttribute(element, name, value) {
  if (value == null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// Control characters, and characters that reorder or hide text around them.
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;

/** Text from outside as one line in which every character shows. */
export function printable(text, empty = '(empty)') {
  if (text === '') return empty;
  return String(text).replace(UNPRINTABLE, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

/** A name from outside: one line, cut by the layout if it is long, whole in its title. */
export function nameOf(text, className = 'name') {
  const shown = printable(text);
  return h('bdi', { class: className, title: shown.length > 24 ? shown : null }, shown);
}

/** A time as people read it, with the exact one in its title. */
export function timeOf(iso, shown) {
  return h('time', { datetime: iso, title: iso }, shown);
}

/** Makes a table whose caption is `caption`; each column is `{ title, class }`. */
export function table(caption, columns, body = h('tbody')) {
  const heads = columns.map((column) => h('th', { scope: 'col', class: column.class }, column.title));
  return h(
    'div',
    { class: 'table-box' },
    h('table', null, h('caption', { class: 'unseen' }, caption), h('thead', null, h('tr', null, heads)), body),
  );
}

/** A labelled control of a form. */
export function field(label, control, hint) {
  const hintId = hint && `${control.id}-hint`;
  if (hintId) control.setAttribute('aria-describedby', hintId);
  return h(
    'div',
    { class: 'field' },
    h('label', { for: control.id }, label),
    control,
    hint && h('p', { class: 'hint', id: hintId }, hint),
  );
}

/** A `<select>` of `[value, text]` pairs. */
export function select(id, options, chosen) {
  const items = options.map(([value, text]) => h('option', { value, selected: value === chosen }, text));
  return h('select', { id, name: id }, items);
}
