// After the steps: the code that lets an app of the visitor's own report here.

import { copyButton } from "./copy.js";
import { byId } from "./dom.js";

/** Lets the button open the dialog with the code. */
export function connect(token) {
  const snippet = `posthog.init(${JSON.stringify(token)}, {
  api_host: ${JSON.stringify(location.origin)},
  capture_pageview: "history_change",
}, "liveactivity");`;
  byId("snippet").textContent = snippet;
  byId("connect-open").addEventListener("click", () => byId("connect").showModal());
  byId("copy").replaceWith(copyButton("the code", () => snippet));
}
