// What a tab keeps for as long as it lives. Storage may be forbidden; then nothing is kept.

/** Returns what is kept under a key, empty for nothing. */
export function kept(key) {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

/** Keeps a text under a key, or nothing where it is empty. */
export function keep(key, text) {
  try {
    if (text) sessionStorage.setItem(key, text);
    else sessionStorage.removeItem(key);
  } catch {
    // Nothing depends on it.
  }
}
