// A session as a row of a list.

import { h, setText } from "./dom.js";
import { List } from "./list.js";
import { ago, capitalise, isVisitor, now, pathOf, span, stateName, who } from "./words.js";

const columns = ["Who", "Page", "Last action", "Here for", "Conversation", "Assistance"];

/** Returns a list of sessions. */
export function sessionList(app, label, nearEnd) {
  return new List({ label, columns, nearEnd, make, draw: (row, cells, element) => draw(app, row, cells, element), open: (row) => app.go({ view: "person", id: row.id }) });
}

/** The cells of a row: two lines of text, or one. */
function make() {
  const two = (name, /** @type {"a" | "span"} */ tag = "span") => h("span", { class: `cell ${name}` }, h(tag, { class: "first", tabindex: tag === "a" ? -1 : null }), h("small", {}));
  return { who: two("who", "a"), page: two("page"), did: two("did"), since: h("span", { class: "cell since" }), conversation: h("span", { class: "cell conversation" }), state: h("span", { class: "cell state" }) };
}

function draw(app, row, cells, element) {
  const passed = now() - row.seen;
  const name = who(row);
  set(cells.who, name, row.user && row.user !== name ? row.user : row.id);
  const href = app.hrefOf({ view: "person", id: row.id });
  if (cells.who.firstChild.getAttribute("href") !== href) cells.who.firstChild.setAttribute("href", href);
  set(cells.page, capitalise(row.page) || "Unknown page", pathOf(row.url));
  set(cells.did, row.did, ago(row.seen));
  setText(cells.since, row.seen - row.first < 1 ? "new" : span(row.seen - row.first));
  setText(cells.conversation, row.conversation ? `#${row.conversation}` : "");
  setText(cells.state, row.state ? stateName(row.state) : "");
  const presence = passed < 60 ? "here" : passed < 300 ? "lately" : "gone";
  if (element.dataset.presence !== presence) element.dataset.presence = presence;
  element.classList.toggle("fresh", now() - row.touched < 0.9);
  element.classList.toggle("anonymous", isVisitor(row));
  element.classList.toggle("helped", row.state !== "" && row.state !== "thinking");
}

function set(cell, first, second) {
  setText(cell.firstChild, first);
  setText(cell.lastChild, second);
}
