// What the chat and the desk have in common.

/** Keeps an element scrolled to its end, as long as the visitor does not scroll back. Call what it returns after each change. */
export function stick(element) {
  let isLow = true;
  const toEnd = () => { if (isLow) element.scrollTop = element.scrollHeight; };
  element.addEventListener("scroll", () => { isLow = element.scrollHeight - element.scrollTop - element.clientHeight < 40; });
  new ResizeObserver(toEnd).observe(element);
  return toEnd;
}

/** The time of day, to the second. */
export const clock = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
