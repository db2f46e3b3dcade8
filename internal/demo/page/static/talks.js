// The conversations of the demo desk: asked for again and again, and given to whoever shows them.

const every = 400; // milliseconds

export class Talks {
  all = []; // with their parts, the one that was changed last first
  #watchers = [];
  #last = ""; // answer
  isAway = false; // the server does not answer
  onrestart = () => {}; // called when the server was restarted, and has another address for the page

  /** Calls the function after each change. */
  watch(changed) {
    this.#watchers.push(changed);
  }

  /** A conversation. */
  get(id) {
    return this.all.find((c) => c.id === id);
  }

  async start() {
    for (;;) {
      if (!document.hidden) await this.#look();
      await new Promise((done) => setTimeout(done, this.isAway ? 2000 : every));
    }
  }

  async #look() {
    const [last, wasAway] = [this.#last, this.isAway];
    try {
      const response = await fetch("/demo/desk/conversations", { cache: "no-store" });
      if (response.status === 403) this.onrestart();
      if (!response.ok) throw new Error(String(response.status));
      this.#last = await response.text();
      this.isAway = false;
    } catch {
      this.isAway = true;
    }
    if (this.#last === last && this.isAway === wasAway) return;
    if (this.#last) this.all = JSON.parse(this.#last).conversations;
    for (const changed of this.#watchers) changed();
  }

  /** Writes as the visitor, into a new conversation where id is empty. Returns the conversation's id. */
  async write(id, text, contact) {
    const response = await fetch("/demo/desk/conversations" + (id ? `/${encodeURIComponent(id)}/messages` : ""), {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text, contact }),
    });
    if (response.status === 404 && id) return this.write("", text, contact); // the desk has forgotten it
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).detail ?? "The message was not sent.");
    return (await response.json()).id;
  }
}
