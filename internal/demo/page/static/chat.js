// The chat in the shop: what the visitor sees of a conversation.

import { byId, h, showParts } from "./dom.js";
import { clock, stick } from "./view.js";
import { recall, save } from "./state.js";

const starters = ["Where is my order?", "Which lamp is right for reading?", "Do you ship abroad?"];
const patience = 15_000; // milliseconds in which a reply is expected

export class Chat {
  #seen = 0; // parts that were shown while the chat was open
  #writing = 0; // when the visitor wrote last, while no answer is there

  constructor(talks, posthog) {
    this.talks = talks;
    this.posthog = posthog;
    this.log = h("div", { class: "chat-log", role: "log", "aria-live": "polite", "aria-label": "Conversation", tabindex: 0 });
    this.toEnd = stick(this.log);
    this.quick = h("div", { class: "chips", role: "group", "aria-label": "Answers to choose from" });
    this.input = h("input", { id: "chat-input", type: "text", maxlength: 1000, autocomplete: "off", placeholder: "Write a message" });
    this.wrong = h("p", { class: "wrong", role: "alert", hidden: true });
    this.panel = h("section", { class: "chat", role: "dialog", "aria-labelledby": "chat-title", hidden: true, onkeydown: (event) => { if (event.key === "Escape") this.close(); } },
      h("header", {}, h("div", {}, h("h3", { id: "chat-title" }, "Lumen & Oak"), h("p", {}, "We answer at once")),
        h("button", { type: "button", class: "icon", "aria-label": "Close the chat", onclick: () => this.close() }, "×")),
      this.log, this.quick, this.wrong,
      h("form", { onsubmit: (event) => { event.preventDefault(); this.send(this.input.value); } },
        h("label", { class: "hidden", for: "chat-input" }, "Message"), this.input, h("button", { class: "primary" }, "Send")));
    this.badge = h("b", { class: "badge", hidden: true });
    this.bubble = h("button", { type: "button", class: "bubble", "aria-expanded": "false", "aria-label": "Open the chat", onclick: () => (this.panel.hidden ? this.open() : this.close()) }, h("span", { "aria-hidden": "true" }, "Chat"), this.badge);
    this.teaser = h("aside", { class: "teaser", "aria-label": "An offer", "aria-live": "polite", hidden: true });
    byId("chat").append(this.panel, this.teaser, this.bubble);
    talks.watch(() => this.draw());
    this.draw();
  }

  get #public() {
    return (this.talks.get(recall().conversation)?.parts ?? []).filter((part) => part.kind !== "note");
  }

  open() {
    this.panel.hidden = false;
    this.bubble.setAttribute("aria-expanded", "true");
    this.draw();
    this.input.focus();
  }

  close() {
    this.panel.hidden = true;
    this.bubble.setAttribute("aria-expanded", "false");
    this.bubble.focus();
  }

  async send(text) {
    if (!text.trim() || this.isSending) return;
    this.isSending = true;
    this.wrong.hidden = true;
    this.input.value = "";
    try {
      await this.posthog.flush(); // so that the server knows the session that the message is of
      const id = await this.talks.write(recall().conversation ?? "", text.trim(), { email: this.posthog.email, user_id: this.posthog.distinctId });
      this.#writing = Date.now();
      save({ conversation: id });
      setTimeout(() => this.draw(), patience);
    } catch (error) {
      this.input.value ||= text;
      this.wrong.textContent = error.message;
      this.wrong.hidden = false;
    } finally {
      this.isSending = false;
    }
    this.draw();
  }

  draw() {
    const parts = this.#public;
    const last = parts.at(-1);
    if (last && last.kind !== "message") this.#writing = 0;
    const isWaiting = this.#writing && Date.now() - this.#writing < patience;
    const drawn = `${recall().conversation} ${last?.id} ${parts.length} ${Boolean(isWaiting)}`;
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      showParts(this.log, [
        h("p", { class: "say" }, "Hello! What can we do for you?"),
        ...parts.map((part) => h("div", { class: `say ${part.kind === "message" ? "mine" : ""}`, title: clock(part.at) }, h("p", {}, part.text))),
        ...(isWaiting ? [h("p", { class: "say typing", "aria-label": "An answer is being written" }, h("i"), h("i"), h("i"))] : [])]);
      this.quick.replaceChildren(...this.#chips(!parts.length ? starters : last.kind === "offer" ? last.labels ?? [] : []));
      this.toEnd();
    }
    if (!this.panel.hidden) this.#seen = parts.length;
    const unread = parts.length - this.#seen;
    this.badge.hidden = unread <= 0;
    this.badge.textContent = String(unread);
    this.#tease(last?.kind === "offer" && this.panel.hidden && unread > 0 ? last : null);
  }

  /** Shows an offer beside the closed chat. */
  #tease(offer) {
    this.teaser.hidden = !offer;
    if (!offer || this.teased === offer.id) return;
    this.teased = offer.id;
    this.teaser.replaceChildren(
      h("button", { type: "button", class: "icon", "aria-label": "Not now", onclick: () => { this.#seen = this.#public.length; this.draw(); } }, "×"),
      h("p", {}, offer.text),
      h("div", { class: "chips" }, this.#chips(offer.labels ?? [])));
  }

  #chips(labels) {
    return labels.map((label) => h("button", { type: "button", class: "chip", onclick: () => { this.open(); this.send(label); } }, label));
  }

  /** Forgets the conversation, with the visitor. */
  reset() {
    this.#seen = this.#writing = 0;
    this.panel.hidden = true;
    this.bubble.setAttribute("aria-expanded", "false");
    this.draw();
  }
}
