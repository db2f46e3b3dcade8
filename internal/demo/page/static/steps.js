// The steps of the demo, and which of them are done.

import { byId, h } from "./dom.js";
import { recall, save } from "./state.js";

const steps = [
  ["look", "Look at a few products"],
  ["chat", "Start a chat: a note says what you did"],
  ["summary", "Go on shopping: a summary replaces the notes"],
  ["offer", "Go back and forth between two products: an offer"],
  ["answer", "Choose an answer: a reply"],
];

/** Shows the steps, by what was reported and what is in the visitor's conversation. */
export class Steps {
  constructor(talks, posthog) {
    this.talks = talks;
    this.posthog = posthog;
    this.items = steps.map(([, text]) => h("li", {}, text));
    byId("steps").append(...this.items);
    talks.watch(() => this.draw());
    this.draw();
  }

  draw() {
    const parts = this.talks.get(recall().conversation)?.parts ?? [];
    const offered = parts.findIndex((p) => p.kind === "offer");
    const answered = offered < 0 ? -1 : parts.findIndex((p, i) => i > offered && p.kind === "message");
    const done = { ...recall().done,
      ...(this.posthog.count >= 4 ? { look: true } : {}),
      ...(parts.some((p) => p.kind === "note") ? { chat: true, look: true } : {}),
      ...(parts.some((p) => p.redacted) ? { summary: true } : {}),
      ...(offered >= 0 ? { offer: true } : {}),
      ...(answered >= 0 && parts.some((p, i) => i > answered && p.kind === "reply") ? { answer: true } : {}),
    };
    if (Object.keys(done).length !== Object.keys(recall().done ?? {}).length) save({ done });
    const next = steps.findIndex(([name]) => !done[name]);
    byId("connect-open").classList.toggle("primary", next < 0);
    this.items.forEach((item, i) => {
      item.className = i === next ? "next" : next < 0 || i < next ? "done" : ""; // an offer may come before the summary does
      if (i === next) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    });
  }
}
