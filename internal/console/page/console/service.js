// The service, asked with a key. The key travels in the header Authorization and nowhere else.

import { setClock } from "./words.js";

const root = new URL("..", import.meta.url);
const patience = 15_000; // milliseconds for an answer; the service gives one within 5 s

/** An answer that is none: the status, 0 without an answer, and the service's sentence. */
export class Refusal extends Error {
  constructor(status, detail, wait = 0) {
    super(detail || `The server answered ${status}.`);
    this.status = status;
    this.wait = wait; // seconds that the service asks to wait
  }

  /** Whether asking again later can help. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** Puts a refusal in words: what is wrong, and what can be done. */
export function explain(error) {
  switch (error.status) {
    case 0: return ["The server cannot be reached.", "It is tried again until it answers. What is shown may be old."];
    case 401: return ["The server does not know this key.", "It may have been mistyped, rotated, or belong to another server."];
    case 403: return ["This key does not open that.", error.message];
    case 404: return ["There is no such thing.", error.message];
    case 429: return ["The server asks to wait.", "It is asked again in a moment."];
    case 503: return ["The server is not ready yet.", "It is starting, still reading its log, or waiting for its storage. It is asked again in a moment."];
  }
  return error instanceof Refusal ? ["The server could not answer.", error.message] : ["The console made a mistake.", String(error.message ?? error)];
}

export class Service {
  constructor(key, product) {
    this.key = key;
    this.product = product;
  }

  /** Returns the service as the key opens it: a key opens one product, and the MCP tool names it. */
  static async open(key, signal) {
    if (!/^[\x21-\x7e]+$/.test(key)) throw new Refusal(401, ""); // no header can carry it
    const service = new Service(key, "");
    const { value } = await service.activity("console", 1, signal);
    service.product = value.product_id;
    return service;
  }

  /** Answers GET of a path with {product} in it, as an object. */
  async get(path, signal) {
    const response = await this.fetch(path, { signal: inTime(signal) });
    return this.json(response);
  }

  /** Opens the stream after the entry of that id, or at its end. */
  stream(lastID, signal) {
    return this.fetch("stream/{product}", { signal, headers: lastID ? { "Last-Event-ID": lastID } : {} });
  }

  /** Calls the tool that agents call: its answer as text, byte for byte, and as an object. */
  async activity(user, limit, signal) {
    const call = {
      jsonrpc: "2.0", id: 1, method: "tools/call",
      params: { name: "get_live_user_activity", arguments: limit ? { user_id: user, limit } : { user_id: user } },
    };
    const response = await this.fetch("mcp", {
      method: "POST", signal: inTime(signal), body: JSON.stringify(call),
      headers: { "Content-Type": "application/json", Accept: "application/json, text/event-stream" },
    });
    const { result, error } = await this.json(response);
    const text = result?.content?.[0]?.text ?? error?.message ?? "";
    if (!result || result.isError) throw new Refusal(response.status, text);
    return { text, value: result.structuredContent };
  }

  async fetch(path, options) {
    const url = new URL(path.replace("{product}", encodeURIComponent(this.product)), root);
    let response;
    try {
      response = await fetch(url, {
        ...options, headers: { ...options.headers, Authorization: `Bearer ${this.key}` },
        cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      });
    } catch (error) {
      if (options.signal?.aborted && error.name !== "TimeoutError") throw error;
      throw new Refusal(0, "");
    }
    setClock(response.headers.get("Date"));
    if (response.ok) return response;
    let detail = "";
    try {
      ({ detail } = await response.json());
    } catch {
      // Something between here and the service has answered.
    }
    throw new Refusal(response.status, detail, Number(response.headers.get("Retry-After")) || 0);
  }

  async json(response) {
    try {
      return await response.json();
    } catch {
      throw new Refusal(0, ""); // the answer broke off
    }
  }
}

/** Returns a signal that also ends what takes too long, as on a connection that was lost unnoticed. */
const inTime = (signal) => AbortSignal.any([signal, AbortSignal.timeout(patience)]);

/** Waits; it ends early, with an error, when the signal does. */
export function sleep(seconds, signal) {
  return /** @type {Promise<void>} */ (new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
  }));
}

/** Back-off: 1 s doubling to 30 s, with jitter, and never less than the service asks for. */
export class Backoff {
  failures = 0;

  next(error) {
    const base = Math.min(30, 2 ** this.failures++);
    return Math.max(base * (0.75 + Math.random() / 2), error?.wait ?? 0);
  }

  reset() {
    this.failures = 0;
  }
}
