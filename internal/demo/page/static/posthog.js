// Reports what a visitor does in the way of posthog-js: the same events, properties and requests. A shop of your own has
// posthog-js for this.

import { recall, save } from "./state.js";

const idle = 30 * 60_000; // a session ends after so many milliseconds without an event
const longest = 24 * 3600_000; // and after so many at the latest
const flushAfter = 250;
const maxKept = 50_000; // bytes that a browser sends for certain after the page was left; it refuses more than 64 KiB

/** A UUID of version 7: it begins with the time. */
export function uuid(now = Date.now()) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  for (let i = 0; i < 6; i++) bytes[i] = Math.floor(now / 2 ** (8 * (5 - i))) % 256;
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

export class PostHog {
  #queue = [];
  /** @type {Promise<void> | null} */
  #sending = null;
  #timer = 0;
  #retries = 0;
  #window = uuid();
  #pageview = "";

  /** Captures pages and, in the element root, clicks, changes and submits. */
  constructor(token, root) {
    this.token = token;
    this.root = root;
    this.count = 0; // of events since the page was loaded
    this.onevent = () => {};
    for (const type of ["click", "change", "submit"]) root.addEventListener(type, (event) => this.#autocapture(event), { capture: true });
    addEventListener("pagehide", () => this.#leave());
  }

  get distinctId() {
    if (!recall().distinctId) {
      const anonymous = uuid();
      save({ distinctId: anonymous, deviceId: anonymous });
    }
    return recall().distinctId;
  }

  get email() {
    return recall().email ?? "";
  }

  get sessionId() {
    return recall().session?.[1] ?? "";
  }

  /** The session: another one after half an hour without an event, or a day. */
  #session(now) {
    let [last, id, start] = recall().session ?? [0, "", 0];
    if (!id || now - last > idle || now - start > longest) [id, start] = [uuid(now), now];
    save({ session: [now, id, start] });
    return id;
  }

  capture(event, properties = {}, more = {}) {
    const now = Date.now();
    const id = uuid(now);
    if (event === "$pageview") this.#pageview = id;
    this.#queue.push({
      uuid: id, event,
      properties: {
        distinct_id: this.distinctId, $device_id: recall().deviceId, token: this.token,
        $session_id: this.#session(now), $window_id: this.#window, $pageview_id: this.#pageview,
        $current_url: location.href, $host: location.host, $pathname: location.pathname,
        $viewport_width: innerWidth, $viewport_height: innerHeight, $time: now / 1000,
        $lib: "web", $lib_version: "1.434.18", $is_identified: Boolean(recall().userId), ...(recall().userId ? { $user_id: recall().userId } : {}),
        ...properties,
      },
      ...more,
      timestamp: new Date(now).toISOString(),
    });
    this.count++;
    this.onevent();
    this.#soon(flushAfter);
  }

  pageview(title) {
    this.capture("$pageview", { title, navigation_type: "pushState" });
  }

  /** The visitor is known from now on. */
  identify(userId, email) {
    const anonymous = this.distinctId;
    save({ distinctId: userId, userId, email });
    this.capture("$identify", anonymous === userId ? {} : { $anon_distinct_id: anonymous }, { $set: { email } });
  }

  #autocapture(event) {
    const target = event.target;
    const isForm = event.type === "submit";
    if (!(target instanceof Element) || target.closest(".ph-no-capture")) return;
    if (!isForm && !target.closest("a, button, input, select, textarea, label, summary")) return;
    const elements = [];
    for (let e = /** @type {Element | null} */ (target); e && e !== document.documentElement; e = e.parentElement) elements.push(describe(e));
    const text = isForm ? "" : elements[0].$el_text;
    this.capture("$autocapture", { $event_type: event.type, $ce_version: 1, $elements: elements, ...(text ? { $el_text: text } : {}) });
  }

  #soon(after) {
    if (!this.#timer) this.#timer = setTimeout(() => { this.#timer = 0; this.flush(); }, after);
  }

  /** Sends what is in the queue, and returns when the server has it. */
  async flush() {
    while (this.#sending) await this.#sending;
    if (!this.#queue.length) return;
    this.#sending = this.#send(this.#queue.splice(0));
    try {
      await this.#sending;
    } finally {
      this.#sending = null;
    }
  }

  async #send(batch) {
    try {
      const body = this.#body(batch);
      const response = await fetch("/i/v0/e/" + (this.#retries ? `?retry_count=${this.#retries}` : ""), {
        method: "POST", headers: { "Content-Type": "application/json" }, body, keepalive: new Blob([body]).size < maxKept,
      });
      if (response.status >= 500) throw new Error(String(response.status));
      this.#retries = 0;
    } catch {
      this.#queue.unshift(...batch); // the uuids stay, so that nothing counts twice
      this.#retries = Math.min(this.#retries + 1, 10);
      this.#soon(Math.min(500 * 2 ** this.#retries, 30_000));
    }
  }

  #body(batch) {
    return JSON.stringify({ api_key: this.token, batch, sent_at: new Date().toISOString() });
  }

  #leave() {
    if (this.#queue.length) navigator.sendBeacon("/i/v0/e/?beacon=1", new Blob([this.#body(this.#queue.splice(0))], { type: "application/json" }));
  }
}

/** What posthog-js says of an element: never what was typed into it. */
function describe(element) {
  const name = element.localName;
  const isTyped = ["select", "textarea"].includes(name) || name === "input" && !["button", "checkbox", "submit", "reset"].includes(element.type);
  const about = { tag_name: name };
  const text = isTyped || name === "form" || name === "body" ? "" : ownText(element);
  if (text) about.$el_text = text;
  if (element.classList.length) about.classes = [...element.classList];
  for (const { name: attribute, value } of element.attributes) {
    if (isTyped && !["name", "id", "class", "aria-label"].includes(attribute)) continue;
    if (attribute !== "style") about[`attr__${attribute}`] = value.slice(0, 1024);
  }
  const siblings = [...(element.parentElement?.children ?? [])];
  about.nth_child = siblings.indexOf(element) + 1;
  about.nth_of_type = siblings.filter((s) => s.localName === name).indexOf(element) + 1;
  return about;
}

/** The text of an element itself, and of the spans in a button or link. */
function ownText(element) {
  const parts = [];
  for (const node of element.childNodes) {
    if (node.nodeType === Node.TEXT_NODE) parts.push(node.data);
    else if (node.localName === "span" && element.closest("a, button")) parts.push(ownText(node));
  }
  return parts.join(" ").replace(/\s+/g, " ").trim().slice(0, 255);
}
