// The help desk: a conversation as an agent sees it.

import { byId, h, showParts } from "./dom.js";
import { clock, stick } from "./view.js";
import { recall } from "./state.js";

const titles = { message: "Customer", reply: "Automatic reply", offer: "Proactive offer" };

export class Desk {
  #chosen = ""; // the conversation that the agent opened; empty for the visitor's

  /** Calls show to show the visitor in the console. */
  constructor(talks, show) {
    this.talks = talks;
    this.show = h("button", { type: "button", class: "quiet", onclick: show }, "In the console");
    this.list = h("select", { "aria-label": "Conversation", onchange: (event) => { this.#chosen = event.target.value; this.draw(); } });
    this.head = h("div", { class: "helpdesk-head" });
    this.thread = h("div", { class: "thread", role: "log", "aria-live": "polite", "aria-label": "Conversation", tabindex: 0 });
    this.toEnd = stick(this.thread);
    byId("desk").append(this.head, this.thread);
    talks.watch(() => this.draw());
    this.draw();
  }

  draw() {
    const { all } = this.talks;
    const mine = recall().conversation;
    if (!all.some((c) => c.id === this.#chosen)) this.#chosen = "";
    const id = this.#chosen || (all.some((c) => c.id === mine) ? mine : all[0]?.id);
    const open = this.talks.get(id);
    const drawn = JSON.stringify([this.talks.isAway, id, open, all.map((c) => c.id)]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    if (this.talks.isAway && !open) return this.#say("The server does not answer.", "The conversations are back when it is.");
    if (!open) return this.#say("No conversations yet", "Click around the shop, then start a chat. The agent will see what you did before.");
    this.list.replaceChildren(...all.map((c) => h("option", { value: c.id, selected: c.id === id }, `${nameOf(c)} · ${clock(c.opened)}`)));
    showParts(this.head, [h("div", { class: "avatar", "aria-hidden": "true" }, nameOf(open)[0].toUpperCase()),
      h("div", {}, h("b", {}, nameOf(open)), h("small", {}, `Since ${clock(open.opened)}`)), ...(all.length > 1 ? [this.list] : []), ...(id === mine ? [this.show] : [])]);
    showParts(this.thread, rows(open.parts));
    this.toEnd();
  }

  #say(title, text) {
    this.head.replaceChildren();
    this.thread.replaceChildren(h("div", { class: "empty" }, h("b", {}, title), h("p", {}, text)));
  }
}

const nameOf = ({ contact }) => contact.email || "Visitor";

/** The parts, with those that the summary replaced in one line. */
function rows(parts) {
  const shown = [];
  let replaced = 0;
  for (const part of parts) {
    if (part.redacted) {
      replaced++;
      continue;
    }
    const isSummary = part.kind === "note" && replaced > 0;
    if (isSummary) {
      shown.push(h("p", { class: "replaced" }, `${replaced} ${replaced === 1 ? "note was" : "notes were"} replaced by this summary`));
      replaced = 0;
    }
    shown.push(row(part, isSummary));
  }
  return shown;
}

function row(part, isSummary) {
  const title = part.kind === "note" ? (isSummary ? "Internal note · Summary" : "Internal note") : titles[part.kind];
  return h("article", { class: `part ${part.kind}${isSummary ? " summary" : ""}`, "data-part": part.id },
    h("header", {}, h("b", {}, title), h("time", { datetime: part.at }, clock(part.at))),
    h("p", { class: "text" }, part.text),
    part.labels?.length ? h("ul", { class: "labels", "aria-label": "Answers to choose from" }, part.labels.map((label) => h("li", {}, label))) : null);
}
