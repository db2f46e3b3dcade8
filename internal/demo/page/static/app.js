// The demo: a shop, a help desk and the console beside each other.

// @ts-ignore: the console is the server's
import { mount } from "/console/console.js";
import { Chat } from "./chat.js";
import { Desk } from "./desk.js";
import { connect } from "./connect.js";
import { byId } from "./dom.js";
import { PostHog } from "./posthog.js";
import { openShop, reopenShop } from "./shop.js";
import { forget, remember } from "./state.js";
import { Steps } from "./steps.js";
import { Talks } from "./talks.js";

/** Lets one part show where there is no room for three, and marks the desk when something is new in it. */
function tabs(talks) {
  const buttons = [...byId("tabs").children];
  const mark = (isNew) => byId("tabs").querySelector("[data-pane=desk]").classList.toggle("new", isNew);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      byId("panes").dataset.pane = button.dataset.pane;
      for (const b of buttons) b.setAttribute("aria-pressed", String(b === button));
      if (button.dataset.pane === "desk") mark(false);
    });
  }
  talks.watch(() => mark(talks.all.length > 0 && byId("panes").dataset.pane !== "desk"));
}

async function start() {
  if (location.search) history.replaceState(history.state, "", location.pathname + location.hash); // the secret is in a cookie
  const response = await fetch("/demo/config");
  if (!response.ok) throw new Error("The server does not open the demo here.");
  const { product, key, token } = await response.json();
  remember(token);
  const posthog = new PostHog(token, byId("shop"));
  const talks = new Talks();
  tabs(talks);
  openShop(posthog);
  const chat = new Chat(talks, posthog);
  const steps = new Steps(talks, posthog);
  const shown = mount(byId("console"), { key, product });
  new Desk(talks, () => {
    shown.open(posthog.sessionId);
    byId("tabs").querySelector("[data-pane=console]").click();
  });
  connect(token);
  posthog.onevent = () => steps.draw();
  byId("restart").addEventListener("click", async () => {
    await posthog.flush();
    forget();
    posthog.count = 0;
    chat.reset();
    reopenShop();
    steps.draw();
  });
  talks.onrestart = () => location.reload(); // the answer tells where the page is now
  talks.start();
}

start().catch((error) => { byId("toast").textContent = error.message; });
