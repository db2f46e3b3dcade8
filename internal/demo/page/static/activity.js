// What an agent is given of the visitor, as the REST interface has it.

import { clock, h } from "./dom.js";

export async function list(element, { product, key }, posthog) {
  const rows = h("ol", { class: "actions" });
  element.replaceChildren(rows);
  for (;;) {
    const response = await fetch(`/users/${product}/${encodeURIComponent(posthog.distinctId)}/live-activity?limit=30`, { headers: { Authorization: `Bearer ${key}` } }).catch(() => null);
    if (response?.ok) {
      const { actions } = await response.json();
      rows.replaceChildren(...actions.reverse().map((a) => h("li", {}, h("time", {}, clock(a.timestamp_start * 1000)), " ", a.description)));
    }
    await new Promise((done) => setTimeout(done, 800));
  }
}
