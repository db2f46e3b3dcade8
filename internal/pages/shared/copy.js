// Copying a text.

import { h } from "./dom.js";

/** Returns a button that copies what text() returns. */
export function copyButton(what, text) {
  let back = 0;
  const label = h("span", { "aria-live": "polite" }, "Copy");
  return h("button", {
    type: "button", class: "quiet", "aria-label": `Copy ${what}`,
    onclick: async () => {
      const copied = await copy(text());
      label.textContent = copied ? "Copied" : "Select and copy it by hand";
      clearTimeout(back);
      back = setTimeout(() => (label.textContent = "Copy"), 2000);
    },
  }, label);
}

/** Copies a text; the clipboard is there on https and on this machine only. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "hidden", readonly: true, tabindex: -1 });
    area.value = text;
    document.body.append(area);
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    focused?.focus({ preventScroll: true });
    return copied;
  }
}
