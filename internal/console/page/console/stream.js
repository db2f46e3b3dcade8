// Following the stream: server-sent events read by fetch, because EventSource sends no key.

import { Backoff, Refusal, sleep } from "./service.js";

const maxFrame = 1 << 20; // characters; an event of the service has at most 60 KiB
const silence = 45; // seconds after which a connection counts as lost; the service sends a heartbeat every 15

/** Takes the text of a stream and returns its events: {id, event, data}. */
export class Frames {
  #rest = "";

  take(text) {
    const events = [];
    this.#rest += text;
    let from = 0;
    for (let end; (end = this.#rest.indexOf("\n\n", from)) >= 0; from = end + 2) {
      const event = parse(this.#rest.slice(from, end));
      if (event) events.push(event);
    }
    this.#rest = this.#rest.slice(from);
    if (this.#rest.length > maxFrame) throw new Refusal(0, "");
    return events;
  }
}

function parse(block) {
  const event = { id: "", event: "message", data: "" };
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    switch (line.slice(0, colon)) {
      case "id": event.id = value; break;
      case "event": event.event = value; break;
      case "data": data.push(value); break;
    }
  }
  if (data.length === 0) return null;
  event.data = data.join("\n");
  return event;
}

/** Returns the object, or null where there is none: what cannot be read is passed over. */
function object(json) {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

/**
 * Follows the stream of a product until the signal ends it or the service refuses the key. It reconnects for ever, and resumes
 * after the last event that was handled. on.opened() is called for each connection, on.batch(batch) for what was done,
 * on.gap() when something is missing or was erased, on.waiting(error) before each pause.
 */
export async function follow(service, on, signal) {
  const backoff = new Backoff();
  let last = "";
  const handle = ({ id, event, data }) => {
    backoff.reset();
    if (event === "gap" || event === "erase") on.gap();
    else if (event === "message") {
      const value = object(data);
      if (value?.type === "actions") on.batch(value);
    }
    if (id) last = id;
  };
  while (!signal.aborted) {
    let failure;
    try {
      await read(service, last, handle, on.opened, signal);
      failure = new Refusal(0, ""); // it ended: the server stops, or ends a slow reader
    } catch (error) {
      if (signal.aborted) return;
      failure = error instanceof Refusal ? error : new Refusal(0, "");
    }
    if (!failure.passing) throw failure;
    on.waiting(failure);
    await sleep(backoff.next(failure), signal).catch(() => {});
  }
}

/** Reads one connection to its end. */
async function read(service, last, handle, opened, signal) {
  const connection = new AbortController();
  const drop = () => connection.abort();
  signal.addEventListener("abort", drop, { once: true });
  let watchdog = setTimeout(drop, silence * 1000);
  try {
    const response = await service.stream(last, connection.signal);
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const frames = new Frames();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(drop, silence * 1000);
      for (const event of frames.take(value)) handle(event);
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", drop);
    drop();
  }
}
