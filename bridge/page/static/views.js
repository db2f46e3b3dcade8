// The views of the portal. Each returns {title, crumb?, nodes}.

import { byId, h } from "./dom.js";
import { icon } from "./icons.js";
import { count, list } from "./words.js";
import { context, report } from "./bridge.js";
import { missing, save, state, statusNames, vendorOf } from "./store.js";

const badge = (status) => h("span", { class: `badge ${status}` }, statusNames[status]);

let toasted = 0; // the timer that ends what is said

/** Says something in passing. */
function toast(text) {
  const box = byId("toast");
  box.textContent = text;
  box.classList.add("shown");
  clearTimeout(toasted);
  toasted = setTimeout(() => box.classList.remove("shown"), 4500);
}

/** Reports a click on something of a vendor. */
function clicked(label, vendor) {
  report("click", `Click ${label}`, `User clicked ${label} on the page of ${vendor.name}`, vendor);
}

/* Vendors */

export function vendorsView() {
  const by = (status) => state.vendors.filter((v) => v.status === status).length;
  const stats = [
    ["Vendors", state.vendors.length, "all"], ["Approved", by("approved"), "approved"],
    ["In progress", by("pending") + by("in_review"), "in_review"], ["Blocked", by("blocked"), "blocked"],
  ];
  return {
    title: "Vendors",
    lead: "Who we buy from, and what is still needed before they can be paid.",
    nodes: [
      h("dl", { class: "stats" }, stats.map(([name, n, kind]) => h("div", { class: `stat ${kind}` }, h("dt", {}, name), h("dd", {}, String(n))))),
      h("div", { class: "card flush" },
        h("table", { class: "vendors" },
          h("caption", { class: "hidden" }, "Vendors and their compliance"),
          h("thead", {}, h("tr", {}, ["Vendor", "Status", "Documents", "Spend this year", "Owner"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, state.vendors.map(vendorRow)))),
    ],
  };
}

function vendorRow(vendor) {
  const have = vendor.documents.length - missing(vendor).length;
  return h("tr", {},
    h("th", { scope: "row" },
      h("a", { class: "vendor-link", href: `#/vendors/${vendor.id}` }, avatar(vendor),
        h("span", {}, h("b", {}, vendor.name), h("small", {}, vendor.category)))),
    h("td", { "data-label": "Status" }, badge(vendor.status)),
    h("td", { "data-label": "Documents" }, progress(have, vendor.documents.length)),
    h("td", { "data-label": "Spend this year", class: "number" }, vendor.spend),
    h("td", { "data-label": "Owner" }, vendor.owner));
}

function avatar(vendor) {
  const initials = vendor.name.split(" ").map((word) => word[0]).join("").slice(0, 2);
  return h("span", { class: `avatar tint-${state.vendors.indexOf(vendor) % 6}`, "aria-hidden": "true" }, initials);
}

function progress(have, of) {
  const bar = h("progress", { max: of, value: have, class: have === of ? "full" : null, "aria-label": `${have} of ${of} documents` });
  return h("span", { class: "documents" }, bar, h("span", { "aria-hidden": "true" }, `${have} of ${of}`));
}

/* One vendor */

export function vendorView(id) {
  const vendor = vendorOf(id);
  if (!vendor) return { title: "No such vendor", lead: "It may have been renamed.", nodes: [h("a", { class: "button", href: "#/vendors" }, "All vendors")] };
  return {
    title: vendor.name, crumb: true, badge: badge(vendor.status), avatar: avatar(vendor), vendor,
    lead: `${vendor.category} · ${vendor.country} · ${vendor.terms}`,
    nodes: [
      h("div", { class: "actions", role: "group", "aria-label": "Actions" },
        h("button", { class: "primary", type: "button", onclick: () => approve(vendor) }, icon("check"), "Approve vendor"),
        h("button", { type: "button", onclick: () => ask(vendor, "Request documents", "Request sent to") }, icon("documents"), "Request documents"),
        h("button", { type: "button", onclick: () => ask(vendor, "Send reminder", "Reminder sent to") }, icon("send"), "Send reminder")),
      notice(vendor),
      h("div", { class: "columns" }, documentsCard(vendor), sideCards(vendor)),
    ],
  };
}

function notice(vendor) {
  const owed = missing(vendor);
  if (owed.length === 0) {
    return vendor.status === "approved"
      ? h("p", { class: "notice approved" }, icon("check"), h("span", {}, "Approved. Orders and payments are open."))
      : h("p", { class: "notice in_review" }, icon("check"), h("span", {}, "Every document is on file. This vendor can be approved."));
  }
  const text = `${count(owed.length, "document")} missing: ${list(owed)}.`;
  return h("p", { class: `notice ${vendor.status === "blocked" ? "blocked" : "pending"}` }, icon("missing"), h("span", {}, text));
}

function documentsCard(vendor) {
  return h("section", { class: "card", "aria-labelledby": "documents-title" },
    h("h2", { id: "documents-title" }, "Compliance documents"),
    h("ul", { class: "document-list" }, vendor.documents.map((d) => documentRow(vendor, d))));
}

function documentRow(vendor, d) {
  const have = Boolean(d.note);
  return h("li", { class: have ? "have" : "owed" },
    h("span", { class: "mark" }, icon(have ? "check" : "missing")),
    h("span", { class: "document-name" }, h("b", {}, d.name), h("small", {}, have ? d.note : "Missing")),
    !have && h("button", { type: "button", "aria-label": `Upload document: ${d.name}`, onclick: () => upload(vendor, d) }, icon("upload"), "Upload document"));
}

function sideCards(vendor) {
  const facts = [["Owner", vendor.owner], ["Spend this year", vendor.spend], ["Country", vendor.country], ["Payment terms", vendor.terms]];
  return h("div", { class: "stack" },
    h("section", { class: "card", "aria-labelledby": "facts-title" }, h("h2", { id: "facts-title" }, "Details"),
      h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))))),
    h("section", { class: "card", "aria-labelledby": "note-title" }, h("h2", { id: "note-title" }, "Internal note"),
      h("form", { class: "note", onsubmit: (event) => addNote(event, vendor) },
        h("label", { for: "note" }, "Only your team sees it."),
        h("textarea", { id: "note", rows: 3, maxlength: 500, required: true }),
        h("button", { type: "submit" }, "Add note"))));
}

function approve(vendor) {
  const owed = missing(vendor);
  vendor.status = owed.length > 0 ? "blocked" : "approved";
  save();
  clicked("Approve vendor", vendor);
  redraw();
  toast(owed.length > 0
    ? `${vendor.name} cannot be approved yet: ${count(owed.length, "document")} missing.`
    : `${vendor.name} is approved.`);
}

function ask(vendor, label, done) {
  clicked(label, vendor);
  toast(`${done} ${vendor.name} (simulated).`);
}

function upload(vendor, d) {
  d.note = "Uploaded just now";
  if (missing(vendor).length === 0 && vendor.status !== "approved") vendor.status = "in_review";
  save();
  report("click", "Click Upload document", `User uploaded the ${d.name} of ${vendor.name}`, vendor);
  redraw();
  toast(`${d.name}: on file for ${vendor.name}.`);
}

/** What is typed stays in the page: only that there was a note is reported. */
function addNote(event, vendor) {
  event.preventDefault();
  event.target.reset();
  report("submit", "Submit internal note form", `User submitted the internal note form of ${vendor.name}`, vendor);
  toast("Note added.");
}

/* Missing documents */

export function documentsView() {
  const owed = state.vendors.flatMap((vendor) => missing(vendor).map((name) => ({ vendor, name })));
  return {
    title: "Missing documents",
    lead: owed.length > 0 ? `${count(owed.length, "document")} to collect before everybody can be paid.` : "Nothing is missing. Well done.",
    nodes: [
      h("div", { class: "card" }, owed.length > 0
        ? h("ul", { class: "document-list" }, owed.map(owedRow))
        : h("p", { class: "empty" }, "All vendors are complete.")),
    ],
  };
}

function owedRow({ vendor, name }) {
  return h("li", { class: "owed" },
    h("span", { class: "mark" }, icon("missing")),
    h("span", { class: "document-name" }, h("b", {}, name), h("small", {}, h("a", { href: `#/vendors/${vendor.id}` }, vendor.name))),
    h("button", { type: "button", "aria-label": `Request document: ${name} from ${vendor.name}`, onclick: () => ask(vendor, "Request document", `Request for the ${name} sent to`) }, "Request document"));
}

/* Activity */

export function activityView() {
  const box = h("div", { class: "card" }, h("p", { class: "empty" }, "Asking the bridge…"));
  fill(box);
  return { title: "Activity", lead: "What the bridge knows of this session, and all that the assistant sees.", nodes: [box] };
}

async function fill(box) {
  try {
    const known = await context();
    const items = known.actions.toReversed().map((action) => h("li", {},
      h("time", { datetime: new Date(action.timestamp_start * 1000).toISOString() }, new Date(action.timestamp_start * 1000).toLocaleTimeString()),
      h("span", { class: "type" }, action.type),
      h("span", {}, h("b", {}, action.title), h("small", {}, action.description))));
    box.replaceChildren(
      h("p", { class: "summary" }, known.summary),
      h("ol", { class: "timeline", "aria-label": "Actions, newest first" }, items),
      h("details", {}, h("summary", {}, "The answer of the bridge"), h("pre", { tabindex: 0 }, JSON.stringify(known, null, 2))));
  } catch {
    box.replaceChildren(
      h("p", { class: "empty" }, "The bridge cannot be reached just now, so there is nothing to show."),
      h("button", { type: "button", onclick: () => fill(box) }, "Try again"));
  }
}

let redraw = () => {};

/** Sets what shows the current view again. */
export function onChange(f) {
  redraw = f;
}
