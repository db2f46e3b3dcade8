// The conversations of the demo desk: asked for again and again, and given to whoever shows them.

const every = 400; // milliseconds

export class Talks {
  all = []; // heads, the one that was changed last first
  #full = new Map(); // by id
  #shown = new Set();
  #watchers = [];
  #tag = "";
  isAway = false; // the server does not answer
  onrestart = () => {}; // called when the server was restarted, and has another address for the page

  /** Calls the function after each change. */
  watch(changed) {
    this.#watchers.push(changed);
  }

  /** A conversation with its parts; it is asked for from now on. */
  get(id) {
    if (id && !this.#shown.has(id)) {
      this.#shown.add(id);
      this.#tag = "";
    }
    return this.#full.get(id);
  }

  async start() {
    for (;;) {
      if (!document.hidden) await this.#look();
      await new Promise((done) => setTimeout(done, this.isAway ? 2000 : every));
    }
  }

  async #look() {
    let isChanged = this.isAway;
    try {
      const response = await fetch("/demo/desk/conversations", { cache: "no-store", headers: this.#tag ? { "If-None-Match": this.#tag } : {} });
      if (response.status === 403) this.onrestart();
      if (!response.ok && response.status !== 304) throw new Error(String(response.status));
      this.isAway = false;
      if (response.status !== 304) {
        const { conversations } = await response.json();
        this.all = conversations;
        this.#tag = response.headers.get("ETag") ?? ""; // get may ask for more meanwhile
        isChanged = true;
        for (const { id, version } of this.all) {
          if (this.#shown.has(id) && this.#full.get(id)?.version !== version) await this.#fetch(id);
        }
        for (const id of this.#full.keys()) if (!this.all.some((c) => c.id === id)) this.#full.delete(id);
      }
    } catch {
      this.#tag = "";
      isChanged ||= !this.isAway;
      this.isAway = true;
    }
    if (isChanged) for (const changed of this.#watchers) changed();
  }

  async #fetch(id) {
    const response = await fetch(`/demo/desk/conversations/${encodeURIComponent(id)}`);
    if (response.ok) this.#full.set(id, await response.json());
  }

  /** Writes as the visitor, into a new conversation where id is empty. Returns the conversation's id. */
  async write(id, text, contact) {
    const response = await fetch("/demo/desk/conversations" + (id ? `/${encodeURIComponent(id)}/messages` : ""), {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text, contact }),
    });
    if (response.status === 404 && id) return this.write("", text, contact); // the desk has forgotten it
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).detail ?? "The message was not sent.");
    this.#tag = "";
    return (await response.json()).id;
  }
}
