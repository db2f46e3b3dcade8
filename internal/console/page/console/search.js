// Finds a person by the start of an email address, user ID or session ID.

import { h, setText } from "./dom.js";
import { sessionList } from "./rows.js";
import { explain } from "./service.js";
import { apply, page } from "./sessions.js";
import { say } from "./now.js";
import { count } from "./words.js";

const pause = 250; // milliseconds without a keystroke before a search
const most = 2000; // results; a longer prefix finds the others
const retryEvery = 2; // seconds

export class SearchView {
  title = "Search";
  q = "";
  #rows = [];
  #next = "";
  /** @type {AbortController | null} */
  #asked = null; // ends the search that runs
  /** @type {any} */
  #error = null; // why there is no answer
  #typing = 0;
  #ticks = 0;

  constructor(app) {
    this.app = app;
    this.input = h("input", {
      type: "search", "aria-label": "Start of an email address, user ID or session ID", placeholder: "ada@example.com",
      autocomplete: "off", autocapitalize: "off", spellcheck: "false", oninput: () => this.#typed(),
    });
    this.found = h("p", { class: "lead", role: "status" });
    this.further = h("button", { type: "button", hidden: true, onclick: () => this.#further() }, "Search further back");
    this.note = h("div", { class: "note", role: "status" });
    this.list = sessionList(app, "Sessions that were found, newest first");
    this.element = h("section", { class: "view search", "aria-labelledby": "la-search", hidden: true },
      h("div", { class: "head" },
        h("div", {}, h("h1", { id: "la-search" }, "Search"), this.found),
        h("form", { class: "tools", role: "search", onsubmit: (event) => {
          event.preventDefault();
          this.#typed(0);
        } }, this.further, this.input)),
      this.note, this.list.element);
    this.#draw();
  }

  show(route, isFirst) {
    this.element.hidden = false;
    const q = route.q ?? "";
    if (q !== this.q || isFirst) {
      this.input.value = q;
      this.#search(q);
    }
    this.list.restore();
    if (this.app.before?.view === "search" && !isFirst && this.#rows.length > 0) this.list.focus();
    else this.input.focus({ preventScroll: true });
  }

  hide() {
    clearTimeout(this.#typing);
    this.element.hidden = true;
  }

  close() {
    this.#asked?.abort();
    this.list.close();
  }

  /** What was found is kept up to date, in the order in which it was found. */
  batch(batch) {
    const row = this.#rows.find(({ id }) => id === batch.session_id);
    if (row) apply(row, batch);
  }

  tick() {
    this.list.redraw();
    if (this.#error?.passing && !this.#asked && ++this.#ticks % retryEvery === 0 && !document.hidden) this.#ask();
  }

  escape() {
    if (document.activeElement !== this.input) this.input.focus();
    else if (this.input.value) {
      this.input.value = "";
      this.#typed(0);
    }
  }

  #typed(wait = pause) {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => {
      const q = this.input.value.trim();
      if (q === this.q && !this.#error) return;
      this.app.go({ view: "search", q }, true);
      this.#search(q);
    }, wait);
  }

  async #search(q) {
    this.#asked?.abort();
    this.#asked = this.#error = null;
    this.q = q;
    this.#rows = [];
    this.#next = "";
    if (q) await this.#ask();
    else this.#draw();
  }

  /** Searches anew: what was found may have been erased. */
  again() {
    if (this.q) this.#search(this.q);
  }

  async #further() {
    await this.#ask();
    if (this.further.hidden) this.input.focus();
  }

  /** Asks for what follows the rows that were found. */
  async #ask() {
    this.#asked?.abort();
    this.#asked = new AbortController();
    const { signal } = this.#asked;
    this.further.disabled = true;
    this.#draw();
    try {
      const { rows, next } = await page(this.app.service, { after: this.#next, q: this.q }, signal);
      if (signal.aborted) return;
      const known = new Set(this.#rows.map((row) => row.id));
      this.#rows = [...this.#rows, ...rows.filter((row) => !known.has(row.id))];
      this.#next = this.#rows.length < most ? next : "";
      this.#asked = this.#error = null;
      this.#draw();
    } catch (error) {
      if (signal.aborted) return;
      this.#asked = null;
      this.#error = error;
      this.#draw();
      this.app.refused(error);
    } finally {
      this.further.disabled = false;
    }
  }

  #draw() {
    const n = this.#rows.length;
    this.list.update(this.#rows);
    this.list.element.hidden = n === 0;
    this.further.hidden = !this.#next;
    setText(this.found, !this.q || this.#asked || this.#error ? "" : `${count(n, "session")}${this.#next ? " so far" : ""}`);
    this.note.hidden = n > 0 && !this.#error;
    if (this.#error) say(this.note, ...explain(this.#error));
    else if (!this.q) say(this.note, "Whom are you looking for?", "Type the start of an email address, user ID or session ID, in upper or lower case.");
    else if (this.#asked) say(this.note, "Searching…", "");
    else if (this.#next) say(this.note, "Not among the sessions searched so far.", "One search looks through 10,000 sessions; it can go on further back.");
    else say(this.note, `Nobody begins with “${this.q}”.`, "Sessions are found for as long as their activity is kept.");
  }
}
