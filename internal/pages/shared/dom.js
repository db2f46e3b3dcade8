// Building elements. Strings only ever become text nodes and attributes.

/**
 * Returns an element. Keys that start with "on" are listeners; false, null and undefined leave an attribute or a child out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [props]
 * @param {...any} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props = {}, ...children) {
  return build(document.createElement(tag), props, children);
}

/**
 * Returns an element of SVG.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [props]
 * @param {...any} children
 * @returns {SVGElementTagNameMap[T]}
 */
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

/**
 * Shows these parts in an element. Those that are there already stay, so that a screen reader reads only the new
 * ones, and a part that has the focus keeps it.
 * @param {Element} element
 * @param {Element[]} parts
 */
export function showParts(element, parts) {
  parts.forEach((part, i) => {
    const shown = element.children[i];
    if (!shown) element.append(part);
    else if (!shown.isEqualNode(part)) shown.replaceWith(part);
  });
  while (element.children.length > parts.length) element.lastElementChild?.remove();
}

/**
 * Returns the element of that id, which the page has.
 * @param {string} id
 * @returns {any} of the kind that the page's HTML says
 */
export const byId = (id) => document.getElementById(id);
