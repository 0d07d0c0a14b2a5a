// Rows that follow a list that changes all the time, without moving under the user's pointer or focus.

const canHover = matchMedia('(hover: hover)');

/** Keeps the rows of a `<tbody>`: one for each key, reused, in the order of the list. */
export class LiveRows {
  #body;
  #rows = new Map();
  #key;
  #create;

  /** `create(item)` makes `{ row, update(item) }`; `key(item)` tells items apart. */
  constructor(body, key, create) {
    this.#body = body;
    this.#key = key;
    this.#create = create;
  }

  /** Shows the items. While the pointer or focus is in the rows, or a dialog is open, existing rows stay in place. */
  show(items) {
    if (this.#isHeld()) this.#updateInPlace(items);
    else this.#arrange(items);
  }

  #isHeld() {
    const isUsed = this.#body.contains(document.activeElement) || document.querySelector('dialog[open]') !== null;
    return isUsed || (canHover.matches && this.#body.matches(':hover'));
  }

  #updateInPlace(items) {
    const room = Math.max(items.length - this.#rows.size, 0);
    const news = items.filter((item) => !this.#rows.has(this.#key(item)));
    const current = new Map(items.map((item) => [this.#key(item), item]));
    for (const [key, entry] of this.#rows) {
      entry.row.classList.toggle('gone', !current.has(key));
      if (current.has(key)) entry.update(current.get(key));
    }
    for (const item of news.slice(0, room)) this.#body.append(this.#entry(item).row);
  }

  #arrange(items) {
    const wanted = new Set(items.map(this.#key));
    for (const [key, entry] of this.#rows) {
      if (wanted.has(key)) continue;
      entry.row.remove();
      this.#rows.delete(key);
    }
    items.forEach((item, i) => {
      const { row } = this.#entry(item);
      row.classList.remove('gone');
      if (this.#body.children[i] !== row) this.#body.insertBefore(row, this.#body.children[i] ?? null);
    });
  }

  #entry(item) {
    const key = this.#key(item);
    const entry = this.#rows.get(key) ?? this.#create(item);
    this.#rows.set(key, entry);
    entry.update(item);
    return entry;
  }
}
