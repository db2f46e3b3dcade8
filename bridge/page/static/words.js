// Counting and joining words.

/** Joins words as in "a, b and c". */
export function list(words) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** "1 document", "2 documents". */
export const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
