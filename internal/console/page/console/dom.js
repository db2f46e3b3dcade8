// Building elements. Strings only ever become text nodes and attributes.

/** Returns an element. Keys that start with "on" are listeners; false, null and undefined leave an attribute or a child out. */
export function h(tag, props = {}, ...children) {
  return build(document.createElement(tag), props, children);
}

/** Returns an element of SVG. */
export function s(tag, props = {}, ...children) {
  return build(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function build(element, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Sets a text unless it is there already, so that nothing is drawn again in vain. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

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
    const focused = document.activeElement;
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    focused?.focus({ preventScroll: true });
    return copied;
  }
}
