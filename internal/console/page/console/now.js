// Who is there now, newest first.

import { h, setText } from "./dom.js";
import { Pace } from "./pace.js";
import { sessionList } from "./rows.js";
import { explain } from "./service.js";
import { maxRows } from "./sessions.js";
import { count, isVisitor, now, number } from "./words.js";

const lately = 300; // seconds: who was active since is there
const pointing = 3000; // milliseconds for which a pointer that moved holds the order
const refreshEvery = 2; // seconds

const filters = [["", "Everyone"], ["identified", "Identified"], ["conversation", "In a conversation"]];

export class NowView {
  title = "Now";
  #moved = -Infinity;
  #stop = new AbortController();
  #ticks = 0;
  #asking = 0; // questions that are not answered yet
  /** @type {any} */
  #error = null;
  #isLoaded = false;

  constructor(app) {
    this.app = app;
    this.filters = {};
    this.pace = new Pace(() => this.draw());
    this.lead = h("p", { class: "lead" });
    this.newer = h("button", { type: "button", class: "newer", hidden: true, onclick: () => this.#release() });
    this.who = Object.fromEntries(filters.map(([name, text]) => [name, h("button", { type: "button", "aria-pressed": "false", onclick: () => this.#filter({ who: name }) }, text)]));
    this.page = h("input", {
      type: "search", placeholder: "Page, such as checkout", "aria-label": "Only those on this page", autocomplete: "off", spellcheck: "false",
      oninput: () => this.#filter({ page: this.page.value.trim() }),
    });
    this.list = sessionList(app, "People who are there, newest first", () => this.#more());
    this.note = h("div", { class: "note", role: "status", hidden: true });
    this.element = h("section", { class: "view now", "aria-labelledby": "la-now", hidden: true },
      h("div", { class: "head" },
        h("div", {}, h("h1", { id: "la-now", tabindex: -1 }, "Now"), this.lead),
        h("div", { class: "tools" }, this.newer, h("div", { class: "choice", role: "group", "aria-label": "Who" }, Object.values(this.who)), this.page)),
      this.note, this.list.element);
    const { signal } = this.#stop;
    this.list.scroller.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse") this.#moved = performance.now();
    }, { signal, passive: true });
    this.list.scroller.addEventListener("pointerleave", () => (this.#moved = -Infinity), { signal });
    this.list.scroller.addEventListener("scroll", () => this.pace.ask(), { signal, passive: true });
  }

  show(route, isFirst) {
    this.element.hidden = false;
    this.filters = { who: route.who ?? "", page: route.page ?? "" };
    for (const [name, button] of Object.entries(this.who)) button.setAttribute("aria-pressed", String(name === this.filters.who));
    if (this.page.value.trim() !== this.filters.page) this.page.value = this.filters.page;
    this.app.sessions.settle();
    this.draw();
    this.list.restore();
    if (!isFirst && this.app.before?.view === "now" && this.list.first) this.list.focus();
    else if (!isFirst) this.element.querySelector("h1")?.focus({ preventScroll: true });
  }

  hide() {
    this.pace.stop();
    this.element.hidden = true;
  }

  close() {
    this.hide();
    this.#stop.abort();
    this.list.close();
  }

  /** Reads the list anew. */
  async load() {
    await this.#try(() => this.app.sessions.reload(this.#stop.signal));
    this.#isLoaded ||= !this.#error;
    this.pace.ask();
  }

  batch() {
    this.pace.ask();
  }

  /** Asks who is new that no stream has named. The list keeps its place. */
  async poll() {
    await this.#refresh("");
  }

  tick() {
    this.draw();
    if (++this.#ticks % refreshEvery === 0 && !document.hidden) this.#refresh(this.list.first?.cursor ?? "");
  }

  escape() {
    if (this.#isFocused()) this.#release();
  }

  /** Whether the order stays as it is, because someone is about to choose a row. */
  #isHeld() {
    return !this.list.isAtTop || this.#isFocused() || performance.now() - this.#moved < pointing;
  }

  #isFocused() {
    return this.list.space.contains(document.activeElement);
  }

  #release() {
    this.#moved = -Infinity;
    if (this.#isFocused() || document.activeElement === this.newer) this.element.querySelector("h1")?.focus({ preventScroll: true });
    this.list.toTop();
    this.draw();
  }

  draw() {
    const { sessions } = this.app;
    if (this.element.hidden || !sessions) return;
    const isHeld = this.#isHeld();
    if (!isHeld) sessions.settle();
    this.list.update(this.#filtered(sessions.order));
    const pending = isHeld ? sessions.pending((row) => this.#fits(row)) : 0;
    this.newer.hidden = pending === 0;
    setText(this.newer, `${number(pending)} newer`);
    this.newer.title = "The order is held while you choose";
    setText(this.lead, this.#active(sessions));
    this.#explain(sessions);
  }

  #active({ order, ended, full }) {
    if (!this.#isLoaded || order.length === 0) return "";
    const since = now() - lately;
    let n = order.findIndex((row) => row.seen < since);
    const isExact = n >= 0 || ended;
    if (n < 0) n = order.length;
    return `${isExact && !full ? count(n, "person").replace("persons", "people") : `More than ${number(n)} people`} active in the last 5 minutes`;
  }

  #filtered(order) {
    return this.filters.who || this.filters.page ? order.filter((row) => this.#fits(row)) : order;
  }

  #fits(row) {
    const { who, page } = this.filters;
    const wanted = page.toLowerCase();
    return Boolean((!who || (who === "conversation" ? row.conversation : !isVisitor(row))) &&
      (!wanted || row.page.includes(wanted) || row.url.toLowerCase().includes(wanted)));
  }

  /** Says why there is nothing to see, or no more. */
  #explain(sessions) {
    const isEmpty = this.#filtered(sessions.order).length === 0;
    this.note.toggleAttribute("hidden", !(this.#error || (isEmpty && this.#isLoaded))); // changes nothing that is so already
    if (this.#error) say(this.note, ...explain(this.#error));
    else if (isEmpty && sessions.order.length > 0) say(this.note, "Nobody here fits the filter.", sessions.ended ? "Choose Everyone, or another page." : "Looking further back…");
    else if (isEmpty) say(this.note, "Nobody is there yet.", "As soon as someone uses your product, they appear here. Point posthog-js or a webhook at this server.");
    this.list.element.hidden = isEmpty;
    setText(this.list.end, sessions.full ? `These are the ${number(maxRows)} newest. A search finds the others.` : sessions.ended && !isEmpty ? "That is everyone." : "");
    if (isEmpty && !sessions.ended && this.#isLoaded) this.#more();
  }

  #filter(change) {
    const route = { view: "now", ...this.filters, ...change };
    this.list.toTop();
    this.app.go(route, true);
    this.show(route, true);
  }

  async #more() {
    const { sessions } = this.app;
    if (!this.#isLoaded || this.#error || sessions.ended || sessions.full) return;
    await this.#try(() => sessions.more(this.#stop.signal));
    if (!this.element.hidden) this.list.update(this.#filtered(sessions.order));
    this.pace.ask();
  }

  /** Asks for a page again, one at a time: an answer that another overtakes would show what was before. */
  async #refresh(cursor) {
    const { sessions } = this.app;
    if (this.#asking) return;
    if (this.#error || !this.#isLoaded) return this.load();
    await this.#try(() => sessions.refresh(cursor, this.#stop.signal));
    this.pace.ask();
  }

  async #try(ask) {
    this.#asking++;
    try {
      await ask();
      this.#error = null;
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#error = error;
      this.app.refused(error);
    } finally {
      this.#asking--;
    }
  }
}

/** Shows a sentence and what it means. */
export function say(element, sentence, meaning) {
  const [first, second] = element.children;
  if (second) {
    setText(first, sentence);
    setText(second, meaning);
  } else {
    element.replaceChildren(h("b", {}, sentence), h("p", {}, meaning));
  }
}
