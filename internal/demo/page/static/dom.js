// Building elements. Strings only ever become text nodes and attributes.

/** Returns an element. Keys that start with "on" are listeners; false, null and undefined leave an attribute or a child out. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== false && child !== null && child !== undefined));
  return element;
}

/** Keeps an element scrolled to its end, as long as the visitor does not scroll back. Call what it returns after each change. */
export function stick(element) {
  let isLow = true;
  const toEnd = () => { if (isLow) element.scrollTop = element.scrollHeight; };
  element.addEventListener("scroll", () => { isLow = element.scrollHeight - element.scrollTop - element.clientHeight < 40; });
  new ResizeObserver(toEnd).observe(element);
  return toEnd;
}

export const byId = (id) => document.getElementById(id);

/** The time of day, to the second. */
export const clock = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
