// A list of any length of which only the rows in sight exist.

import { h } from "./dom.js";

const overscan = 4; // rows above and below those in sight

/**
 * A grid of rows of one height, which the style sheet sets as --row. columns are the names of the columns; make() returns the
 * cells of an empty row, draw(row, cells, element) fills them, open(row) is called for a click or Enter, and nearEnd() when the last
 * rows are close.
 */
export class List {
  #rows = [];
  #shown = new Map(); // elements by the id of their row
  #free = [];
  #active = ""; // the id of the row that Tab reaches
  #frame = 0;

  constructor({ label, columns, make, draw, open, nearEnd }) {
    this.make = make;
    this.draw = draw;
    this.open = open;
    this.nearEnd = nearEnd;
    this.space = h("div", { role: "rowgroup", class: "list-space" });
    this.end = h("div", { class: "list-end" });
    this.head = h("div", { role: "rowgroup", class: "list-head" }, h("div", { role: "row", class: "row", "aria-rowindex": 1 },
      columns.map((name) => h("span", { role: "columnheader" }, name))));
    this.grid = h("div", { role: "grid", "aria-label": label, "aria-colcount": columns.length }, this.head, this.space);
    this.scroller = h("div", { class: "list-scroll", tabindex: -1 }, this.grid, this.end);
    this.element = h("div", { class: "list" }, this.scroller);
    this.scroller.addEventListener("scroll", () => {
      if (this.scroller.clientHeight > 0) this.top = this.scroller.scrollTop; // else it is hidden
      this.#later();
    }, { passive: true });
    this.space.addEventListener("keydown", (event) => this.#key(event));
    this.space.addEventListener("click", (event) => this.#click(event));
    this.space.addEventListener("focusin", (/** @type {any} */ event) => this.#reach(event.target.closest("[role=row]")?.row.id));
    this.resized = new ResizeObserver(() => this.#measure());
    this.resized.observe(this.scroller);
  }

  /** Whether the list shows its beginning. */
  get isAtTop() {
    return this.scroller.scrollTop < 4;
  }

  /** The first row in sight. */
  get first() {
    return this.#rows[Math.floor(this.scroller.scrollTop / this.height)];
  }

  /** Shows these rows. */
  update(rows) {
    this.#rows = rows;
    this.grid.setAttribute("aria-rowcount", rows.length + 1);
    this.#render();
  }

  toTop() {
    this.scroller.scrollTop = 0;
  }

  /** Comes back to where the list was when it was last in sight. */
  restore() {
    const top = this.top ?? 0;
    this.#measure();
    this.scroller.scrollTop = top;
    this.#render();
  }

  /** Gives the focus to the row that had it, or to the first one. */
  focus() {
    const index = Math.max(0, this.#rows.findIndex((row) => row.id === this.#active));
    this.#focus(index);
  }

  /** Draws the rows in sight again: time has passed. */
  redraw() {
    for (const element of this.#shown.values()) this.draw(element.row, element.cells, element);
  }

  close() {
    this.resized.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  #later() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#render();
    });
  }

  #measure() {
    const height = parseFloat(getComputedStyle(this.scroller).getPropertyValue("--row")) || 56;
    const seen = this.scroller.clientHeight - this.head.offsetHeight;
    if (seen <= 0 || (height === this.height && seen === this.window)) return;
    this.height = height;
    this.window = seen;
    for (const element of this.#shown.values()) element.at = -1;
    this.#render();
  }

  #render() {
    if (!this.height || !this.window) return; // not on the page
    const { height } = this;
    this.space.style.height = `${this.#rows.length * height}px`;
    const top = this.scroller.scrollTop;
    const from = Math.max(0, Math.floor(top / height) - overscan);
    const to = Math.min(this.#rows.length, Math.ceil((top + this.window) / height) + overscan);
    const wanted = new Map();
    for (let i = from; i < to; i++) wanted.set(this.#rows[i].id, i);
    const focused = this.#focused();
    if (focused && !wanted.has(focused)) {
      const i = this.#rows.findIndex((row) => row.id === focused);
      if (i >= 0) wanted.set(focused, i);
    }
    if (!this.#rows.some((row) => row.id === this.#active)) this.#active = this.#rows[0]?.id ?? "";
    this.#place(wanted);
    if (to > this.#rows.length - 20) this.nearEnd?.();
  }

  #focused() {
    /** @type {any} */
    const element = this.space.ownerDocument.activeElement?.closest?.("[role=row]");
    return element && this.space.contains(element) ? element.row.id : "";
  }

  /** Gives every row in sight an element at its place, in the order of the rows. */
  #place(wanted) {
    for (const [id, element] of this.#shown) {
      if (wanted.has(id)) continue;
      this.#shown.delete(id);
      this.#free.push(element);
      element.remove(); // before others are placed: moving the one with the focus would take it away
    }
    /** @type {any} */
    let next = this.space.firstElementChild;
    for (const [id, i] of [...wanted].sort((a, b) => a[1] - b[1])) {
      let element = this.#shown.get(id);
      if (!element) {
        element = this.#free.pop() ?? this.#make();
        element.at = -1;
        this.#shown.set(id, element);
      }
      element.row = this.#rows[i];
      if (element.at !== i) {
        element.at = i;
        element.style.transform = `translateY(${i * this.height}px)`;
        element.setAttribute("aria-rowindex", i + 2);
      }
      element.tabIndex = id === this.#active ? 0 : -1;
      this.draw(element.row, element.cells, element);
      if (element === next) next = next.nextElementSibling;
      else this.space.insertBefore(element, next);
    }
    this.#free.length = Math.min(this.#free.length, 2 * overscan);
  }

  #make() {
    const cells = this.make();
    /** @type {any} */
    const element = h("div", { role: "row", class: "row" }, Object.values(cells).map((cell) => h("span", { role: "gridcell" }, cell)));
    element.cells = cells;
    return element;
  }

  #click(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return; // a link, opened elsewhere
    const element = event.target.closest("[role=row]");
    if (!element) return;
    event.preventDefault();
    this.#reach(element.row.id);
    this.open(element.row);
  }

  #reach(id) {
    if (!id || id === this.#active) return;
    const before = this.#shown.get(this.#active);
    if (before) before.tabIndex = -1;
    this.#active = id;
    const element = this.#shown.get(id);
    if (element) element.tabIndex = 0;
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const at = this.#rows.findIndex((row) => row.id === this.#active);
    const leap = Math.max(1, Math.floor(this.window / this.height) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + leap, PageUp: at - leap, Home: 0, End: this.#rows.length - 1 }[event.key];
    if (to !== undefined) this.#focus(to);
    else if ((event.key === "Enter" || event.key === " ") && this.#rows[at]) this.open(this.#rows[at]);
    else return;
    event.preventDefault();
  }

  #focus(index) {
    const i = Math.min(Math.max(index, 0), this.#rows.length - 1);
    if (i < 0) return;
    this.#reach(this.#rows[i].id);
    const top = i * this.height;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + this.height > this.scroller.scrollTop + this.window) this.scroller.scrollTop = top + this.height - this.window;
    this.#render();
    const element = this.#shown.get(this.#rows[i].id);
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest" }); // where the list itself is out of sight
  }
}
