// What flows through the service: this product's figures, summed over all servers.

import { Columns, Figure, Meter } from "./chart.js";
import { h, setText } from "./dom.js";
import { explain, sleep } from "./service.js";
import { say } from "./now.js";
import { bytes, capitalise, minute, number } from "./words.js";

const interval = 3; // seconds

const engines = { memory: "in memory", bbolt: "in a file", redis: "in Redis" };

export class FlowView {
  title = "Flow";
  #stop = new AbortController();

  constructor(app) {
    this.app = app;
    const shared = { name: (point) => minute(point.minute), all: "in the last hour" };
    this.events = new Columns({ ...shared, title: "Events", series: [{ key: "accepted", name: "accepted" }, { key: "ignored", name: "ignored" }, { key: "duplicate", name: "duplicate" }] });
    this.actions = new Columns({ ...shared, title: "Actions", series: [{ key: "actions", name: "views, clicks and submits" }] });
    this.written = new Columns({ ...shared, title: "Written to the desk", series: [{ key: "notes", name: "notes" }, { key: "summaries", name: "summaries" }, { key: "offers", name: "offers" }] });
    this.readers = new Figure({ title: "Readers", help: "of the stream; this console is one" });
    this.lag = new Figure({ title: "Lag", unit: "s", help: "how far help desks are behind the log", format: (n) => (n < 10 ? n.toFixed(1) : number(Math.round(n))) });
    this.stats = h("div", { class: "stats" }, this.readers.element, this.lag.element);
    this.desks = new Map(); // a figure by desk
    this.engine = h("small", {});
    this.log = new Meter("Log");
    this.state = new Meter("All other state");
    this.note = h("div", { class: "note", role: "status", hidden: true });
    this.element = h("section", { class: "view flow", "aria-labelledby": "la-flow" },
      h("div", { class: "head" }, h("div", {}, h("h1", { id: "la-flow", tabindex: -1 }, "Flow"), h("p", { class: "lead" }, "This product, on all servers"))),
      this.note,
      this.stats,
      h("div", { class: "charts" }, this.events.element, this.actions.element, this.written.element,
        h("article", { class: "card storage" }, h("header", {}, h("h3", {}, "Storage"), this.engine), this.log.element, this.state.element)));
  }

  show(_, isFirst) {
    if (!isFirst) this.element.querySelector("h1")?.focus({ preventScroll: true });
    this.#run();
  }

  hide() {
    this.#stop.abort();
  }

  batch() {}

  tick() {}

  escape() {
    this.app.go({ view: "now" });
  }

  async #run() {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (!document.hidden) this.#draw(await this.app.service.get("flow/{product}", signal));
        this.note.hidden = true;
      } catch (error) {
        if (signal.aborted) return;
        this.note.hidden = false;
        say(this.note, ...explain(error));
        this.app.refused(error);
      }
      await sleep(interval, signal).catch(() => {});
    }
  }

  #draw(flow) {
    for (const chart of [this.events, this.actions, this.written]) chart.update(flow.minutes);
    this.readers.update(flow.readers);
    this.lag.update(flow.lag_s);
    this.#drawDesks(flow.desks);
    const { storage } = flow;
    setText(this.engine, engines[storage.engine] ?? storage.engine);
    this.log.update(storage.log_bytes / storage.log_max_bytes, `${bytes(storage.log_bytes)} of ${bytes(storage.log_max_bytes)}`);
    this.state.update(storage.state_bytes / storage.state_max_bytes, `${bytes(storage.state_bytes)} of ${bytes(storage.state_max_bytes)}`);
  }

  #drawDesks(desks) {
    for (const [desk, { element }] of this.desks) {
      if (desks.some((each) => each.desk === desk)) continue;
      element.remove();
      this.desks.delete(desk);
    }
    for (const { desk, parked, retrying } of desks) {
      if (!this.desks.has(desk)) {
        this.desks.set(desk, new Figure({ title: `Parked at ${capitalise(desk)}` }));
        this.stats.append(this.desks.get(desk).element);
      }
      const figure = this.desks.get(desk);
      figure.update(parked);
      setText(figure.help, parked ? `conversations that wait, ${number(retrying)} retrying; nothing is lost` : "no conversation waits");
    }
  }
}
