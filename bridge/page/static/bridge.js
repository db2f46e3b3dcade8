// Talking to the bridge: reports go out one after the other, in order, and wait while it is down.

import { byId } from "./dom.js";
import { count } from "./words.js";
import { compliance, state } from "./store.js";

const retryAfter = 4000; // milliseconds
const queue = [];
/** @type {Promise<void> | null} */
let sending = null; // the promise of a round of sending
let timer = 0;

/** Reports what was done; the page does not wait for it. */
export function report(type, title, description, vendor) {
  queue.push({ session_id: state.session, type, title, description, url: location.href, vendor: compliance(vendor) });
  return flush();
}

/** Forgets what has not been sent. */
export function forget() {
  queue.length = 0;
  byId("recorded").textContent = "Nothing recorded yet";
}

/** Sends what waits. It ends when all is sent, or when the bridge cannot be reached. */
export function flush() {
  sending ??= send().finally(() => {
    sending = null;
    return queue.length > 0 && !timer ? flush() : undefined;
  });
  return sending;
}

async function send() {
  clearTimeout(timer);
  timer = 0;
  while (queue.length > 0) {
    const next = queue[0];
    let response;
    try {
      response = await fetch("demo/actions", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(next),
        keepalive: true,
      });
    } catch {
      return postpone("The portal cannot reach its server just now. You can go on: what you do is kept here and sent later.");
    }
    if (response.status >= 500) return postpone("The server is busy just now. What you do is kept here and sent later.");
    if (queue[0] === next) queue.shift();
    if (!response.ok) {
      say(`One action was not recorded: ${await detail(response)}`, false);
      continue;
    }
    const answer = await response.json();
    if (next.session_id === state.session) recorded(answer.count);
    hush();
  }
}

function postpone(text) {
  say(text, true);
  timer = setTimeout(flush, retryAfter);
}

async function detail(response) {
  try {
    return (await response.json()).detail ?? "the server refused it.";
  } catch {
    return "the server refused it.";
  }
}

function recorded(n) {
  byId("recorded").textContent = `${count(n, "action")} recorded`;
}

function say(text, retry) {
  byId("banner-text").textContent = text;
  byId("banner-retry").hidden = !retry;
  byId("banner").hidden = false;
}

function hush() {
  byId("banner").hidden = true;
}

/** Returns what the bridge knows of this session, everything reported so far included. */
export async function context() {
  await flush();
  const response = await fetch(`context/${encodeURIComponent(state.session)}`, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

export function startBridge() {
  byId("banner-retry").addEventListener("click", flush);
}
