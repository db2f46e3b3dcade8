// The chat widget: it introduces itself with the bridge's summary and answers by fixed rules.

import { byId, h } from "./dom.js";
import { icon } from "./icons.js";
import { list } from "./words.js";
import { context } from "./bridge.js";
import { statusNames } from "./store.js";

const log = byId("chat-log");
const suggestions = ["What is missing?", "What did I do?", "Can I approve?"];
let asked = false; // a conversation has begun

function say(who, ...content) {
  const bubble = h("div", { class: `bubble ${who}` }, h("span", { class: "hidden" }, who === "bot" ? "Assistant: " : "You: "), ...content);
  log.append(bubble);
  log.scrollTop = log.scrollHeight;
  return bubble;
}

/** Shows the vendor and what it still owes. */
function vendorCard(vendor) {
  const owed = vendor.missing_documents;
  return h("div", { class: "chat-card" },
    h("div", { class: "chat-card-head" }, h("b", {}, vendor.name || vendor.id), h("span", { class: `badge ${vendor.status}` }, statusNames[vendor.status])),
    owed.length > 0
      ? h("ul", { class: "missing" }, owed.map((name) => h("li", {}, icon("missing"), h("span", {}, name))))
      : h("p", {}, "No documents are missing."));
}

/** Lets the bot write what answer makes of the context, unless the conversation is cleared meanwhile. */
async function reply(answer) {
  const bubble = say("bot", h("span", { class: "typing", "aria-label": "is writing" }, h("i"), h("i"), h("i")));
  const known = await context().catch(() => null);
  if (!bubble.isConnected) return;
  bubble.remove();
  if (known) {
    say("bot", ...answer(known));
    return;
  }
  say("bot", "I cannot reach the bridge just now, so I do not know what you were doing. Please try again in a moment.",
    h("button", { class: "quiet", type: "button", onclick: () => reply(answer) }, "Try again"));
}

const introduce = (known) => [h("p", {}, known.summary), ...(known.vendor ? [vendorCard(known.vendor)] : [])];

/** Introduces the bot, anew each time as long as nothing was asked. */
function greet() {
  if (asked) return;
  log.replaceChildren();
  reply(introduce);
}

/* The rules */

const noVendor = "You have not opened a vendor yet. Pick one on the Vendors page, then ask me again.";

function whatIsMissing({ vendor }) {
  if (!vendor) return [noVendor];
  const owed = vendor.missing_documents;
  return owed.length > 0 ? [h("p", {}, `Still missing: ${list(owed)}.`), vendorCard(vendor)] : [`Nothing is missing. All documents of ${vendor.name} are on file.`];
}

function whatWasDone({ actions }) {
  if (actions.length === 0) return ["Nothing yet, as far as I can see."];
  return [h("p", {}, "Lately, newest first:"), h("ol", {}, actions.slice(-5).toReversed().map((a) => h("li", {}, inWords(a.title))))];
}

/** "Click Approve vendor" is how actions are titled; people say "Clicked Approve vendor". */
function inWords(title) {
  return title.replace(/^Page Load: /, "Opened ").replace(/^Click /, "Clicked ").replace(/^Submit /, "Submitted ");
}

function whetherToApprove({ vendor }) {
  if (!vendor) return [noVendor];
  const owed = vendor.missing_documents.length;
  if (vendor.status === "approved") return [`${vendor.name} is approved already.`];
  if (owed > 0) return [`Not yet. Approval of ${vendor.name} waits for ${list(vendor.missing_documents)}.`];
  return [`Yes. Everything is on file for ${vendor.name}: press “Approve vendor” on its page.`];
}

/**
 * What the widget knows, as questions in plain words; anything else it does not know.
 * @type {[RegExp, (context: any) => any[]][]}
 */
const rules = [
  [/\b(missing|documents?|needed|owe[sd]?|upload)\b/i, whatIsMissing],
  [/\b(what|which)\b.*\b(i|me|my)\b.*\b(do|did|done|doing|activity|history)\b|\b(my|recent|last) (activity|actions?|history|steps?)\b/i, whatWasDone],
  [/\bapprov\w*|\bblock(ed|s)?\b|\b(vendor|review)'?s? status\b|\bstatus\b.*\bvendor\b|^\W*status\W*$/i, whetherToApprove],
  [/^\W*(hi|hello|hey|help)\b|\bwho are you\b|\bhelp me\b/i, introduce],
];

const unknown = () => ["I only know what you did on this page and how the vendor you opened stands. Ask me what is missing, what you did, or whether you can approve."];

function answerTo(question) {
  return rules.find(([pattern]) => pattern.test(question))?.[1] ?? unknown;
}

function ask(question) {
  asked = true;
  say("you", question);
  reply(answerTo(question));
}

/* The panel */

function setOpen(open) {
  byId("chat").hidden = !open;
  const toggle = byId("chat-toggle");
  toggle.setAttribute("aria-expanded", String(open));
  toggle.setAttribute("aria-label", open ? "Close the assistant" : "Open the assistant");
  toggle.replaceChildren(icon(open ? "close" : "chat"));
  document.body.classList.toggle("chatting", open);
  if (open) {
    byId("chat-input").focus({ preventScroll: true });
    greet();
  }
}

function close() {
  setOpen(false);
  byId("chat-toggle").focus();
}

/** Closes the widget and forgets the conversation. */
export function resetChat() {
  asked = false;
  log.replaceChildren();
  setOpen(false);
}

export function startChat() {
  byId("chat-close").append(icon("close"));
  document.querySelector(".send")?.append(icon("send"));
  document.querySelector(".chat-face")?.append(icon("chat"));
  byId("chat-chips").append(...suggestions.map((text) => h("button", { type: "button", class: "chip", onclick: () => ask(text) }, text)));
  byId("chat-toggle").addEventListener("click", () => setOpen(byId("chat").hidden));
  byId("chat-close").addEventListener("click", close);
  byId("chat").addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  byId("chat-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const question = byId("chat-input").value.trim();
    byId("chat-input").value = "";
    if (question) ask(question);
  });
  setOpen(false);
}
