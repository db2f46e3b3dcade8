// The portal: hash routes to views, and what stays around them.

import { byId, h } from "./dom.js";
import { icon } from "./icons.js";
import { forget, report, startBridge } from "./bridge.js";
import { resetChat, startChat } from "./chat.js";
import { open, restart, state } from "./store.js";
import { activityView, documentsView, onChange, vendorsView, vendorView } from "./views.js";

const sections = [["vendors", "Vendors"], ["documents", "Documents"], ["activity", "Activity"]];

/** The section and the id that the address names. */
function route() {
  const [section = "", id = ""] = location.hash.replace(/^#\/?/, "").split("/");
  return { section: sections.some(([name]) => name === section) ? section : "vendors", id };
}

function view({ section, id }) {
  if (section === "documents") return documentsView();
  if (section === "activity") return activityView();
  return id ? vendorView(id) : vendorsView();
}

/** Shows the view of the address. */
function draw() {
  const at = route();
  const shown = view(at);
  document.title = `${shown.title} · Procurement portal`;
  for (const link of byId("nav").children) {
    if (link.dataset.section === at.section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("main").replaceChildren(
    shown.crumb ? h("a", { class: "crumb", href: "#/vendors" }, icon("back"), "All vendors") : "",
    h("header", { class: "title" }, shown.avatar ?? "", h("div", {}, h("h1", {}, shown.title), h("p", { class: "lead" }, shown.lead)), shown.badge ?? ""),
    ...shown.nodes);
  return shown;
}

/** Draws again what changed, and leaves the focus where it was. */
function redraw() {
  const label = document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent;
  draw();
  const again = [...byId("main").querySelectorAll("button")].find((b) => (b.getAttribute("aria-label") ?? b.textContent) === label);
  (again ?? byId("main")).focus({ preventScroll: true });
}

/** Comes to a page: it is drawn and reported. */
function visit(first) {
  const shown = draw();
  window.scrollTo(0, 0);
  if (!first) byId("main").focus({ preventScroll: true });
  report("pageview", `Page Load: ${shown.title}`, `User landed on the ${shown.vendor ? `page of ${shown.title}` : `${shown.title.toLowerCase()} page`}`, shown.vendor);
}

function newSession() {
  restart();
  forget();
  resetChat();
  byId("session-id").textContent = state.session;
  if (route().section === "vendors" && !route().id) visit(false);
  else location.hash = "#/vendors";
}

open();
onChange(redraw);
startBridge();
startChat();
byId("session-id").textContent = state.session;
byId("nav").append(...sections.map(([name, title]) => h("a", { href: `#/${name}`, "data-section": name }, icon(name), title)));
byId("new-session").addEventListener("click", newSession);
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
window.addEventListener("hashchange", () => visit(false));
if (!location.hash) history.replaceState(null, "", "#/vendors");
visit(true);
