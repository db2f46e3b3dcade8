// Links to other sites.

import { h } from "./dom.js";

/** Returns a link to another site that anyone may have written; where it is not of http or https, only its text. */
export function outward(url, ...children) {
  const safe = webAddress(url);
  if (!safe) return h("span", {}, ...children);
  return h("a", { href: safe, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

function webAddress(url) {
  try {
    const parsed = new URL(url);
    return parsed.protocol === "http:" || parsed.protocol === "https:" ? parsed.href : "";
  } catch {
    return "";
  }
}
