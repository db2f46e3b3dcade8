// A note as the desk shows it. Its HTML is never given to the browser: what is known of it is built, the rest stays text.

import { h } from "./dom.js";

const elements = new Set(["p", "div", "b", "strong", "i", "em", "ul", "ol", "li", "pre", "code", "blockquote"]);
const entities = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** Returns the nodes of a note's HTML. Elements that notes have are built without their attributes; other tags stay as text. */
export function rendered(html) {
  const root = h("div", { class: "rendered" });
  const open = [root];
  for (const [token, closing, name] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)(?:\s[^<>]*)?\/?>|[^<]+|</gi)) {
    const tag = name?.toLowerCase();
    const inner = open[open.length - 1];
    if (tag === "br") inner.append(h("br"));
    else if (!elements.has(tag)) inner.append(unescape(token));
    else if (!closing) {
      const element = h(tag);
      inner.append(element);
      if (open.length < 32) open.push(element);
    } else if (open.length > 1 && inner.localName === tag) open.pop();
  }
  return root;
}

function unescape(text) {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,4}));/gi, (whole, decimal, hex, name) => {
    if (name) return entities[name] ?? whole;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
  });
}
