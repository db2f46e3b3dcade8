// Who is there: rows of sessions, newest first, from the list of the service and from its stream.

import { now, pageName } from "./words.js";

/** How many sessions are kept; what is older is found by a search. */
export const maxRows = 10_000;

const pageSize = 200; // the most that the service returns at once
const margin = 2; // seconds by which the page's and the service's idea of a time may differ

/** Makes a row of what the service says about a session. */
function rowOf(answer, cursor) {
  return {
    id: answer.session_id, user: answer.user_id ?? "", email: answer.email ?? "",
    page: answer.page ?? "", url: answer.canonical_url ?? "", did: answer.last_action ?? "",
    first: answer.first_seen ?? answer.last_seen, seen: answer.last_seen, actions: answer.actions ?? 0,
    conversation: answer.conversation_id ?? "", state: answer.state ?? "",
    cursor, // of the page that it was on, to ask for it again
    touched: 0, // when the stream brought it, in epoch seconds
  };
}

/** Brings what a batch says into a row. */
export function apply(row, batch) {
  const action = batch.actions.at(-1);
  if (batch.user_id && batch.user_id !== row.user) row.email = ""; // it is another person's
  row.user = batch.user_id || row.user;
  row.email = batch.email || row.email;
  row.conversation = batch.conversation_id || row.conversation;
  if (action.timestamp_start >= row.seen) {
    row.page = pageName(action.canonical_url);
    row.url = action.canonical_url;
    row.did = action.description || action.title;
    row.seen = action.timestamp_start;
  }
  row.actions = Math.max(row.actions, action.index + 1);
  row.cursor = "";
  row.touched = now();
}

/** A page of the list, as the service answers it. */
export async function page(service, { after = "", q = "", limit = pageSize }, signal) {
  const query = new URLSearchParams({ limit: String(limit) });
  if (after) query.set("after", after);
  if (q) query.set("q", q);
  const { sessions, next } = await service.get(`sessions/{product}?${query}`, signal);
  return { rows: sessions.map((answer) => rowOf(answer, after)), next: next ?? "" };
}

export class Sessions {
  byID = new Map();
  order = []; // newest first, as of the last settle
  ended = false; // everything that the service keeps has been read
  full = false; // older sessions were let go
  #changed = new Set(); // rows that order does not reflect
  #next = ""; // the cursor of the next page
  /** @type {Promise<void> | null} */
  #loading = null;
  #reloads = 0;

  constructor(service) {
    this.service = service;
  }

  /** How many rows settle would place anew, of those that fit. */
  pending(fits) {
    let n = 0;
    for (const row of this.#changed) n += this.byID.get(row.id) === row && fits(row);
    return n;
  }

  /** Takes a batch of the stream. */
  take(batch) {
    let row = this.byID.get(batch.session_id);
    if (!row) {
      const at = batch.actions[0].timestamp_start;
      row = rowOf({ session_id: batch.session_id, first_seen: at, last_seen: at }, "");
      this.byID.set(row.id, row);
    }
    apply(row, batch);
    this.#changed.add(row);
    if (this.byID.size > 2 * maxRows) this.settle(); // nobody looks at the page
  }

  /** Reads the next page. Calls while one is read wait for that one. */
  more(signal) {
    this.#loading ??= this.#more(signal).finally(() => (this.#loading = null));
    return this.#loading;
  }

  async #more(signal) {
    if (this.ended || this.full) return;
    const reloads = this.#reloads;
    const { rows, next } = await page(this.service, { after: this.#next }, signal);
    if (reloads !== this.#reloads) return; // it does not follow what is there now
    for (const row of rows) {
      if (this.byID.has(row.id)) continue; // it was active meanwhile
      this.byID.set(row.id, row);
      this.order.push(row); // older than all before
    }
    this.full = this.order.length >= maxRows;
    this.#next = next;
    this.ended = next === "";
  }

  /** Reads everything anew, from the first page. */
  async reload(signal) {
    const began = now();
    const { rows, next } = await page(this.service, {}, signal);
    this.#reloads++;
    for (const [id, row] of this.byID) {
      if (row.touched < began) this.byID.delete(id);
    }
    this.#changed = new Set(this.byID.values());
    this.order = [];
    this.full = false;
    this.#merge(rows);
    this.#next = next;
    this.ended = next === "";
    this.settle(); // the list is never empty in between, which would lose its place
  }

  /** Asks again for the page that a row was on: states, links and ends of sessions are not on the stream. */
  async refresh(cursor, signal) {
    const began = now();
    const reloads = this.#reloads;
    const { rows, next } = await page(this.service, { after: cursor }, signal);
    if (reloads !== this.#reloads) return; // what it says may have been erased since
    this.#merge(rows, began);
    const listed = new Set(rows.map((row) => row.id));
    const newest = cursor === "" ? Infinity : this.order.find((row) => row.cursor === cursor)?.seen ?? -Infinity;
    const oldest = next === "" ? -Infinity : rows.at(-1).seen + margin;
    for (const row of this.order) {
      if (row.seen <= newest && row.seen > oldest && row.touched < began - margin && !listed.has(row.id)) {
        this.byID.delete(row.id);
        this.#changed.add(row); // settle lets it go
      }
    }
  }

  /** Merges rows of the service. What the stream has brought since the question was asked is newer. */
  #merge(rows, asked = Infinity) {
    for (const row of rows) {
      const known = this.byID.get(row.id);
      if (!known) {
        this.byID.set(row.id, row);
        this.#changed.add(row);
      } else if (known.touched > asked || known.seen > row.seen) {
        Object.assign(known, { first: Math.min(known.first, row.first), conversation: row.conversation || known.conversation, state: row.state });
      } else {
        if (known.seen !== row.seen) this.#changed.add(known);
        Object.assign(known, row, { touched: known.touched });
      }
    }
  }

  /** Brings order up to date. */
  settle() {
    if (this.#changed.size === 0) return;
    const moved = [...this.#changed].filter((row) => this.byID.get(row.id) === row).sort(newestFirst);
    const rest = this.order.filter((row) => !this.#changed.has(row));
    this.order = merged(moved, rest);
    this.#changed.clear();
    for (const row of this.order.splice(maxRows)) {
      this.byID.delete(row.id);
      this.full = true;
    }
  }
}

const newestFirst = (a, b) => b.seen - a.seen || (a.id < b.id ? -1 : 1);

/** Merges two sorted lists. */
function merged(a, b) {
  const all = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (j === b.length || (i < a.length && newestFirst(a[i], b[j]) < 0)) all.push(a[i++]);
    else all.push(b[j++]);
  }
  return all;
}
