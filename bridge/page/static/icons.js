// Icons.

import { s } from "./dom.js";

const shapes = {
  vendors: "M4 9.5 5.5 4h13L20 9.5M5 10v10h14V10M9 20v-5h6v5M4 9.5a2.7 2.7 0 0 0 5.3 0 2.7 2.7 0 0 0 5.4 0 2.7 2.7 0 0 0 5.3 0",
  documents: "M7 3h7l5 5v13H7zM14 3v5h5M10 13h6M10 17h6",
  activity: "M3 12h4l3-8 4 16 3-8h4",
  check: "m5 12.5 4.5 4.5L19 7.5",
  missing: "M12 8v5M12 16.5v.01M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18",
  arrow: "m9 6 6 6-6 6",
  back: "m15 6-6 6 6 6",
  chat: "M4 5h16v11H10l-4 4v-4H4z",
  close: "m6 6 12 12M18 6 6 18",
  send: "M5 12h14M13 6l6 6-6 6",
  upload: "M12 16V4m-5 5 5-5 5 5M4 16v4h16v-4",
};

/** Returns a decorative icon. */
export function icon(name) {
  return s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, s("path", { d: shapes[name] }));
}
