// The console: who is there, what they do and what becomes of it, as it happens.

import { FlowView } from "./flow.js";
import { h, setText } from "./dom.js";
import { NowView } from "./now.js";
import { PersonView } from "./person.js";
import { SearchView } from "./search.js";
import { Backoff, Service, explain, sleep } from "./service.js";
import { Sessions } from "./sessions.js";
import { follow } from "./stream.js";
import { keep, kept } from "./tab.js";

const keptKey = "liveactivity.console.key"; // of the product's key

/**
 * Shows the console in an element, which must have a height. Without a key it asks for one, keeps it for the tab, and its views
 * are in the fragment of the page's address. With a key it leaves the address and the storage of the page alone; the product is
 * found by the key where it is not given.
 *
 * It returns {open(sessionID), close()}: open shows a person, close ends the console and empties the element.
 */
export function mount(element, { key = "", product = "" } = {}) {
  style(element.ownerDocument);
  const app = new Console(element, key !== "");
  app.start(key || kept(keptKey), product);
  return { open: (id) => app.go({ view: "person", id }), close: () => app.close() };
}

/** Adds the style sheet to a page that does not have it. */
function style(document) {
  const href = new URL("console.css", import.meta.url).href;
  if ([...document.styleSheets].some((sheet) => sheet.href === href)) return;
  document.head.append(h("link", { rel: "stylesheet", href }));
}

const logo = () => h("img", { class: "logo", src: new URL("icon.svg", import.meta.url).href, alt: "" });

const views = [["now", "Now"], ["flow", "Flow"], ["search", "Search"]];

/**
 * The fragment of a route: its view, and what the view is limited to.
 * @param {{ view: string, id?: string, [filter: string]: any }} route
 */
function fragmentOf({ view, id, ...filters }) {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString();
  return `#/${view}${id ? `/${encodeURIComponent(id)}` : ""}${query ? `?${query}` : ""}`;
}

function routeOf(fragment) {
  const [path, query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  const [view, id = ""] = path.split("/", 2);
  const filters = Object.fromEntries(new URLSearchParams(query));
  if (view === "person" && id) {
    try {
      return { view, id: decodeURIComponent(id) };
    } catch {
      return { view: "now" };
    }
  }
  return views.some(([name]) => name === view) ? { ...filters, view } : { view: "now" };
}

class Console {
  #stop = new AbortController();

  constructor(element, isEmbedded) {
    this.host = element;
    this.isEmbedded = isEmbedded;
    this.route = isEmbedded ? { view: "now" } : routeOf(location.hash);
    this.element = h("div", { class: isEmbedded ? "la embedded" : "la" });
    element.replaceChildren(this.element);
    this.element.addEventListener("click", (event) => this.#follow(event));
    (isEmbedded ? this.element : document).addEventListener("keydown", (event) => this.#key(event), { signal: this.#stop.signal });
    if (!isEmbedded) window.addEventListener("hashchange", () => this.show(routeOf(location.hash)), { signal: this.#stop.signal });
  }

  /** Begins with a key, or asks for one. */
  async start(key, product = "") {
    this.#end();
    if (!key) return this.ask();
    this.running = new AbortController();
    const { signal } = this.running;
    const backoff = new Backoff();
    for (;;) {
      try {
        const service = product ? new Service(key, product) : await Service.open(key, signal);
        if (signal.aborted) return;
        if (!this.isEmbedded) keep(keptKey, key);
        return this.#open(service, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (!error.passing) return this.ask(error);
        this.#waitFor(error);
        try {
          await sleep(backoff.next(error), signal);
        } catch {
          return;
        }
      }
    }
  }

  /** Asks for a key; error says why the last one will not do. */
  ask(error) {
    this.#end();
    if (!this.isEmbedded) keep(keptKey, "");
    const [wrong, advice] = error ? explain(error) : [];
    const input = h("input", {
      id: "la-key", type: "password", autocomplete: "off", autocapitalize: "off", spellcheck: "false", required: true,
      "aria-describedby": "la-key-help", "aria-invalid": error ? "true" : null,
    });
    const form = h("form", { class: "ask", onsubmit: (event) => {
      event.preventDefault();
      if (input.value.trim()) this.start(input.value.trim());
    } },
    logo(), h("h1", {}, "liveactivity"),
    h("p", {}, "See who is in your product, and what they do, as it happens."),
    h("label", { for: "la-key" }, "Key of the product"),
    input,
    h("p", { id: "la-key-help", class: "help" }, "A key with the scopes ", h("code", {}, "mcp"), " and ", h("code", {}, "stream"), ". It stays in this tab, and goes only to this server."),
    h("p", { class: "wrong", role: "alert" }, error ? [h("b", {}, wrong), " ", advice] : null),
    h("button", { class: "primary" }, "Open the console"));
    this.element.replaceChildren(this.#asking(form));
    this.#title("Key");
    if (!this.isEmbedded) input.focus();
  }

  /** The page's main part while there are no views. */
  #asking(...children) {
    return h(this.isEmbedded ? "div" : "main", { class: "asking" }, ...children);
  }

  #waitFor(error) {
    const [wrong, advice] = explain(error);
    if (this.element.querySelector(".ask [role=status] b")?.textContent === wrong) return; // it says so already
    this.element.replaceChildren(this.#asking(h("div", { class: "ask" },
      logo(), h("h1", {}, "liveactivity"),
      h("p", { role: "status" }, h("b", {}, wrong), " ", advice),
      this.isEmbedded ? null : h("button", { type: "button", onclick: () => this.ask() }, "Use another key"))));
  }

  #open(service, signal) {
    this.service = service;
    this.sessions = new Sessions(service);
    this.status = h("span", {}, "Connecting");
    this.links = Object.fromEntries(views.map(([name, title]) => [name, h("a", { href: fragmentOf({ view: name }) }, title)]));
    this.main = h(this.isEmbedded ? "div" : "main", { class: "main", tabindex: -1 });
    this.element.replaceChildren(
      h("header", { class: "bar" },
        h("p", { class: "brand" }, logo(), h("b", {}, "liveactivity"), h("span", { class: "product" }, service.product)),
        h("nav", { "aria-label": "Views" }, Object.values(this.links)),
        h("p", { class: "status", role: "status" }, h("i", { class: "dot" }), this.status),
        this.isEmbedded ? null : h("button", { type: "button", class: "quiet", onclick: () => this.ask() }, "Forget key")),
      this.main);
    this.kept = { now: new NowView(this), search: new SearchView(this) };
    this.main.append(this.kept.now.element, this.kept.search.element);
    this.show(this.route, true);
    this.ticker = setInterval(() => this.view.tick(), 1000);
    this.#listen(this.sessions, signal);
  }

  async #listen(sessions, signal) {
    let isFirst = true;
    this.#say("connecting", "Connecting");
    try {
      await follow(this.service, {
        opened: () => {
          this.#say("live", "Live");
          if (isFirst) this.kept.now.poll();
          isFirst = false;
        },
        batch: (batch) => {
          sessions.take(batch);
          this.view.batch(batch);
        },
        gap: () => {
          this.kept.now.load();
          this.kept.search.again();
        },
        waiting: (error) => this.#say("away", error.status === 503 ? "The server is not ready" : "Reconnecting", explain(error).join(" ")),
      }, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 403) return this.#withoutStream(signal);
      this.ask(error);
    }
  }

  /** With a key that does not open the stream the list is asked for every few seconds. */
  async #withoutStream(signal) {
    this.#say("polling", "Every 5 s", "This key does not have the scope stream, so the list is read every few seconds instead.");
    while (!signal.aborted) {
      await this.kept.now.poll();
      await sleep(5, signal).catch(() => {});
    }
  }

  #say(state, text, why = "") {
    this.element.dataset.state = state;
    setText(this.status, text);
    this.status?.parentElement?.setAttribute("title", why);
  }

  /** Says that the service refused a key that was good before, or shows the error where it belongs. */
  refused(error) {
    if (error.status === 401) this.ask(error);
  }

  /** Goes to a route: the fragment changes with it, or what is embedded goes by itself. */
  go(route, replace = false) {
    if (this.isEmbedded) return this.show(route);
    const fragment = fragmentOf(route);
    if (replace) {
      this.route = route;
      history.replaceState(null, "", fragment);
    } else if (location.hash === fragment) {
      this.show(route);
    } else {
      location.hash = fragment;
    }
  }

  hrefOf(route) {
    return fragmentOf(route);
  }

  /** Shows the view of a route. */
  show(route, isFirst = false) {
    this.before = this.route.view === "person" ? this.before : this.route;
    this.route = route;
    if (!this.main) return;
    if (this.view) {
      this.view.hide();
      if (!this.kept[this.#shown]) this.view.element.remove();
    }
    const isSame = this.#shown === route.view && this.view !== undefined; // the focus stays where it is
    this.#shown = route.view;
    this.view = this.kept[route.view] ?? (route.view === "person" ? new PersonView(this) : new FlowView(this));
    if (!this.kept[route.view]) this.main.append(this.view.element);
    const section = route.view === "person" ? this.before?.view ?? "now" : route.view;
    for (const [name, link] of Object.entries(this.links ?? {})) {
      if (name === section) link.setAttribute("aria-current", name === route.view ? "page" : "true");
      else link.removeAttribute("aria-current");
    }
    this.view.show(route, isFirst || isSame);
    this.#title(this.view.title);
  }

  #shown = "";

  #title(title) {
    if (!this.isEmbedded) document.title = [title, this.service?.product, "liveactivity"].filter(Boolean).join(" · ");
  }

  /** Follows a link to another view without the fragment, where the console is embedded. */
  #follow(event) {
    const link = event.target.closest?.("a[href^='#/']");
    if (!link || !this.isEmbedded || event.defaultPrevented) return;
    event.preventDefault();
    this.go(routeOf(link.hash));
  }

  #key(event) {
    if (!this.view || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    const isTyping = /^(input|textarea|select)$/i.test(event.target.tagName);
    if (event.key === "Escape") this.view.escape();
    else if (event.key === "/" && !isTyping && !this.isEmbedded) {
      event.preventDefault();
      this.go({ view: "search", q: this.kept.search.q });
    }
  }

  /** Goes back to the list that a person was opened from. */
  back() {
    this.go(this.before ?? { view: "now" });
  }

  /** Ends what runs with the key. */
  #end() {
    this.running?.abort();
    clearInterval(this.ticker);
    this.view?.hide();
    for (const view of Object.values(this.kept ?? {})) view.close();
    this.kept = this.view = this.main = this.service = this.sessions = undefined;
    delete this.element.dataset.state;
  }

  close() {
    this.#end();
    this.#stop.abort();
    this.element.remove();
  }
}
