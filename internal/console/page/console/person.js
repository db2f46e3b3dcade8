// One person: what they did, and what an agent sees of it.

import { copyButton } from "./copy.js";
import { h, setText } from "./dom.js";
import { outward } from "./links.js";
import { rendered } from "./note.js";
import { explain } from "./service.js";
import { page } from "./sessions.js";
import { ago, capitalise, clock, count, pageName, span, stateName, who } from "./words.js";

const soonest = 1000; // milliseconds between two looks at the same person
const refreshEvery = 5; // seconds

export class PersonView {
  title = "Person";
  #stop = new AbortController();
  #looked = -Infinity;
  #timer = 0;
  #isLooking = false;
  #isDue = false; // there is to be another look
  #ticks = 0;
  /** @type {any} */
  #answer = null; // of the service, and of the tool
  #drawn = ""; // what is on the page
  #cards = new Map(); // of the agent's view
  heading = h("h1", { tabindex: -1 }, "…");
  facts = h("dl", { class: "facts" });
  desk = h("p", { class: "desk" });
  note = h("div", { class: "note", role: "status", hidden: true });
  timeline = h("section", { class: "timeline", "aria-labelledby": "la-timeline" });
  agent = h("section", { class: "agent", "aria-labelledby": "la-agent" });

  constructor(app) {
    this.app = app;
    this.element = h("section", { class: "view person", "aria-label": "Person" });
  }

  show({ id }) {
    this.id = id;
    const back = h("a", { class: "back", href: this.app.hrefOf(this.app.before ?? { view: "now" }) }, this.app.before?.view === "search" ? "Search" : "Now");
    this.element.replaceChildren(back, h("div", { class: "head" }, h("div", {}, this.heading, this.facts), this.desk), this.note,
      h("div", { class: "columns" }, this.timeline, this.agent));
    this.heading.focus({ preventScroll: true });
    this.#look();
  }

  hide() {
    this.#stop.abort();
    clearTimeout(this.#timer);
  }

  batch(batch) {
    if (batch.session_id === this.id) this.#soon();
  }

  tick() {
    if (++this.#ticks % refreshEvery === 0 && !document.hidden) this.#soon();
    this.#times();
  }

  escape() {
    this.app.back();
  }

  /** Looks again, one look at a time: an answer that another overtakes would show what was before. */
  #soon() {
    this.#isDue = true;
    if (this.#isLooking) return;
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      this.#look();
    }, Math.max(0, this.#looked + soonest - performance.now()));
  }

  async #look() {
    this.#looked = performance.now();
    this.#isLooking = true;
    this.#isDue = false;
    const { signal } = this.#stop;
    const { service } = this.app;
    try {
      const detail = await service.get(`sessions/{product}/${encodeURIComponent(this.id)}`, signal);
      const user = detail.session.user_id;
      const seen = user ? await service.activity(user, 0, signal) : null;
      this.#answer = { ...detail, seen, sessions: await sessionsBehind(service, detail, seen, signal) };
      this.#draw();
    } catch (error) {
      if (!signal.aborted) this.#failed(error);
    }
    this.#isLooking = false;
    if (this.#isDue && !signal.aborted) this.#soon();
  }

  #failed(error) {
    const isGone = error.status === 404;
    this.note.hidden = false;
    if (isGone) this.#forget();
    const [sentence, meaning] = isGone
      ? ["Nothing is kept of this session.", "Its activity has expired, or it belongs to another product."]
      : explain(error);
    this.note.replaceChildren(h("b", {}, sentence), h("p", {}, meaning));
    this.app.refused(error);
  }

  /** Drops what the page shows: it has expired, or was erased. */
  #forget() {
    this.#answer = null;
    this.#drawn = "";
    this.#cards.clear();
    setText(this.heading, "Nobody");
    for (const part of [this.facts, this.desk, this.timeline, this.agent]) part.replaceChildren();
  }

  #draw() {
    const { session, recent, by, notes, conversation_url: conversationURL, seen, sessions } = this.#answer;
    this.note.hidden = true;
    // The time of the look-up changes with each answer; it alone is no reason to draw anew under a reader's eyes.
    const drawn = JSON.stringify([session, recent, by, notes, conversationURL, seen?.value.actions, sessions]);
    if (drawn === this.#drawn) return this.#times();
    this.#drawn = drawn;
    const row = { id: session.session_id, user: session.user_id, email: session.email };
    setText(this.heading, who(row));
    this.facts.replaceChildren(...this.#facts(session));
    replace(this.desk, ...this.#conversation(session, conversationURL));
    replace(this.timeline, h("h2", { id: "la-timeline" }, "What they did", h("small", {}, recent.length < session.actions ? `the last ${recent.length} of ${count(session.actions, "action")}` : count(recent.length, "action"))),
      ...shares(session, by), h("ol", { class: "pages" }, grouped(marked(session, recent, by)).map(group)));
    this.#drawAgent(notes, seen, sessions);
    this.#times();
  }

  #facts(session) {
    this.last = h("dd", {});
    const facts = [
      ["Last action", this.last],
      session.first_seen ? ["Here for", h("dd", {}, span(session.last_seen - session.first_seen))] : null,
      session.user_id ? ["User id", h("dd", { class: "id" }, session.user_id)] : null,
      ["Session", h("dd", { class: "id" }, session.session_id)],
      session.state ? ["Assistance", h("dd", {}, stateName(session.state))] : null,
    ];
    return facts.filter((fact) => fact !== null).map(([name, value]) => h("div", {}, h("dt", {}, name), value));
  }

  #conversation(session, url) {
    if (!session.conversation_id) return [h("span", { class: "quietly" }, "No conversation is linked.")];
    const label = `Conversation #${session.conversation_id}`;
    return url ? [outward(url, `${label} ↗`)] : [h("span", {}, label)];
  }

  #times() {
    if (!this.#answer || !this.last) return;
    setText(this.last, ago(this.#answer.session.last_seen));
  }

  /** What the agent sees: the answer of the tool, and the note in the desk. */
  #drawAgent(notes, seen, sessions) {
    const shown = [seen ? this.#card("tool", toolCard, seen, explained(this.#answer, sessions)) : this.#card("no tool", noToolCard),
      ...notes.map((note) => this.#card(`${note.html ? "html" : "text"} ${note.desk}`, noteCard, note))];
    if (this.agent.childElementCount === shown.length + 1 && shown.every((each, i) => each === this.agent.children[i + 1])) return;
    this.agent.replaceChildren(h("h2", { id: "la-agent" }, "What the agent sees"), ...shown);
  }

  /** Brings a card up to date, which make makes once: what is scrolled, pressed or has the focus in it stays so. */
  #card(name, make, ...content) {
    if (!this.#cards.has(name)) this.#cards.set(name, make(...content));
    const { element, update } = this.#cards.get(name);
    update(...content);
    return element;
  }
}

/** Replaces the parts of an element. A link that has the focus keeps it, by its place from the end: what is new comes first. */
function replace(element, ...parts) {
  const links = [...element.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  element.replaceChildren(...parts);
  if (at >= 0) [...element.querySelectorAll("a")].at(at - links.length)?.focus({ preventScroll: true });
}

/** How many of a session's actions are those of the person last seen in it. */
const own = ({ session, recent, by }) => (by ? by.filter((user) => user === session.user_id).length : recent.length);

/** Counts the person's sessions, up to 100, where the agent sees another number of actions than this session shows. */
async function sessionsBehind(service, detail, seen, signal) {
  const user = detail.session.user_id;
  if (!seen || seen.value.count === own(detail)) return 1;
  const { rows } = await page(service, { q: user, limit: 100 }, signal);
  return rows.filter((row) => row.user === user).length;
}

/** Says why the agent sees another number of actions than the session shows. */
function explained(answer, sessions) {
  if (sessions < 2) return "";
  const { session, recent, seen } = answer;
  const kept = recent.length < session.actions ? `, with the last ${recent.length} kept of each` : "";
  return `${count(seen.value.count, "action")} in ${count(sessions, "session")}${kept}; ${own(answer)} of them in this one.`;
}

/** A card with a text() that can be copied. */
function card(title, subtitle, text, ...body) {
  return h("article", { class: "card" }, h("header", {}, h("h3", {}, title), h("small", {}, subtitle), copyButton(title, text)), body);
}

function toolCard(answer) {
  const counts = h("p", { class: "quietly counts" });
  const code = h("code", {});
  return {
    element: card("get_live_user_activity", "the exact answer of the MCP tool", () => answer.text, counts,
      h("pre", { role: "group", tabindex: 0, "aria-label": "Answer of the tool" }, code)),
    update(seen, why) {
      answer = seen;
      setText(code, indented(seen.text));
      setText(counts, why);
    },
  };
}

function noToolCard() {
  const element = h("div", { class: "card" }, h("header", {}, h("h3", {}, "get_live_user_activity")), h("p", { class: "quietly" },
    "Agents ask by user id, and this visitor has none yet. The note reaches them all the same."));
  return { element, update() {} };
}

function noteCard({ desk, text, html }) {
  const name = desk ? `Note in ${capitalise(desk)}` : "Note";
  if (!html) {
    const pre = h("pre", { class: "plain", role: "group", tabindex: 0, "aria-label": name });
    const element = card(name, desk ? "plain text" : "as any desk would be given it", () => text, pre);
    return { element, update: (note) => setText(pre, (text = note.text)) };
  }
  const shown = h("div", { class: "rendered" });
  const code = h("code", {});
  const source = h("pre", { class: "plain", hidden: true, role: "group", tabindex: 0, "aria-label": `HTML of the ${name.toLowerCase()}` }, code);
  const toggle = h("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => {
    source.hidden = !source.hidden;
    shown.hidden = !source.hidden;
    toggle.setAttribute("aria-pressed", String(!source.hidden));
  } }, "HTML");
  const element = h("article", { class: "card" },
    h("header", {}, h("h3", {}, name), h("small", {}, "as the desk shows it"), toggle, copyButton(name, () => (source.hidden ? text : html))),
    shown, source);
  return {
    element,
    update(note) {
      ({ text, html } = note);
      if (code.textContent === html) return;
      code.textContent = html;
      shown.replaceChildren(...rendered(html).childNodes);
    },
  };
}

/** Whose an action of the session is. */
const whose = (session, user) => (user === session.user_id ? session.email : "") || user || "nobody known";

/** Says whose the actions are, where a session had several people: agents are shown those of the one they ask for. */
function shares(session, by) {
  if (!by) return [];
  const each = [...new Set(by)].map((user) => `${by.filter((other) => other === user).length} by ${whose(session, user)}`);
  return [h("p", { class: "quietly shares" }, `${count(by.length, "action")} in this session: ${each.join(", ")}. Agents who ask for one of them are shown that person's alone, from all their sessions.`)];
}

/** The actions, those of others than the session's newest person with whose they are. */
const marked = (session, actions, by) => (by ? actions.map((action, i) => ({ ...action, by: by[i] === session.user_id ? "" : whose(session, by[i]) })) : actions);

/** Groups actions by the visit of a page, newest first. */
function grouped(actions) {
  const groups = [];
  for (const action of actions) {
    const last = groups.at(-1);
    if (last && last[0].canonical_url === action.canonical_url && action.type !== "pageview") last.push(action);
    else groups.push([action]);
  }
  return groups.reverse();
}

/** What the timeline says of an action: its title, or more where that is not all. */
const told = ({ type, title, description, marks }) => (type === "event" || type === "error" || marks ? description : title);

function group(actions) {
  const [{ canonical_url: canonical, raw_url: raw }] = actions;
  const first = actions[0].timestamp_start;
  return h("li", {},
    h("header", {}, h("h3", {}, capitalise(pageName(canonical)) || "A page without an address"), h("time", {}, clock(first)), h("small", { class: "address" }, outward(raw, canonical))),
    h("ol", { class: "actions" }, actions.toReversed().map((action) => h("li", { "data-type": action.type },
      h("span", { class: "what" }, told(action), action.by ? h("small", {}, ` by ${action.by}`) : null), h("time", { title: action.description }, clock(action.timestamp_start))))));
}

/** Indents JSON by white space alone: numbers and strings stay as they were sent. */
export function indented(json) {
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return json.replace(/"(?:[^"\\]|\\.)*"|[{}[\],:]|\s+/g, (token, at) => {
    switch (token) {
      case "{": case "[":
        depth++;
        return /^\s*[}\]]/.test(json.slice(at + 1, at + 20)) ? token : token + line();
      case "}": case "]":
        depth--;
        return /[{[]\s*$/.test(json.slice(Math.max(0, at - 20), at)) ? token : line() + token;
      case ",": return token + line();
      case ":": return ": ";
    }
    return token[0] === '"' ? token : "";
  });
}
