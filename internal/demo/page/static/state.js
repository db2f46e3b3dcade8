// What the demo remembers of a visitor, in the browser: until another visitor begins, or the server has a new token.

const name = "liveactivity.demo";

let token = "";
let state = {};

function stored() {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "null") ?? {};
  } catch {
    return {}; // storage is forbidden, or holds what is not ours
  }
}

/** Returns what is remembered under the token of this server. */
export function remember(current) {
  token = current;
  state = stored();
  if (state.token !== token) forget();
  return state;
}

/** Begins with another visitor. */
export function forget() {
  state = { token };
  save({});
}

export const recall = () => state;

/** Remembers more. */
export function save(more) {
  Object.assign(state, more);
  try {
    localStorage.setItem(name, JSON.stringify(state));
  } catch {
    // Then it lasts as long as the page.
  }
}
