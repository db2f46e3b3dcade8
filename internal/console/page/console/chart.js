// Small charts, drawn as SVG.

import { h, s, setText } from "./dom.js";
import { number } from "./words.js";

const width = 600;
const height = 120;
const headroom = 20; // above the highest column, for the number of what it stands for

/**
 * Columns over time. series are {key, name}, stacked from below; points have a number for each key. Arrow keys and the pointer
 * choose a point, and the legend reads it out; name(point) is what it is called, all what all of them together are.
 */
export class Columns {
  #points = [];
  #chosen = -1;

  constructor({ title, series, name, all }) {
    this.series = series;
    this.name = name;
    this.all = all;
    this.when = h("small", {}, all);
    this.values = Object.fromEntries(series.map(({ key }) => [key, h("b", {}, "0")]));
    this.groups = series.map((_, i) => s("g", { class: `series-${i + 1}` }));
    this.cursor = s("rect", { class: "cursor", y: 0, height, visibility: "hidden" });
    this.axis = ["", "", ""].map(() => h("span", {}));
    this.top = h("small", { class: "top", "aria-hidden": "true" });
    const plot = s("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      this.cursor, this.groups, s("line", { class: "base", x1: 0, x2: width, y1: height, y2: height }));
    this.plot = h("div", {
      class: "plot", role: "slider", tabindex: 0, "aria-label": title, "aria-valuemin": 0,
      onpointermove: (event) => this.#point(event), onpointerleave: () => this.#choose(-1), onblur: () => this.#choose(-1),
      onkeydown: (event) => this.#key(event),
    }, plot, this.top);
    this.element = h("article", { class: "card chart" },
      h("header", {}, h("h3", {}, title), this.when),
      h("ul", { class: "legend" }, series.map(({ key, name: label }, i) => h("li", { class: `series-${i + 1}` }, h("i", {}), this.values[key], ` ${label}`))),
      this.plot,
      h("p", { class: "axis", "aria-hidden": "true" }, this.axis));
  }

  update(points) {
    this.#points = points;
    const highest = Math.max(0, ...points.map((point) => this.#sum(point)));
    const most = Math.max(1, highest);
    const step = width / Math.max(1, points.length);
    points.forEach((point, i) => {
      let y = height;
      this.series.forEach(({ key }, k) => {
        const tall = ((point[key] ?? 0) / most) * (height - headroom);
        const bar = this.groups[k].children[i] ?? this.groups[k].appendChild(s("rect", {}));
        y -= tall;
        for (const [name, value] of Object.entries({ x: i * step + 1, width: Math.max(1, step - 2), y, height: tall })) {
          const text = value.toFixed(1);
          if (bar.getAttribute(name) !== text) bar.setAttribute(name, text);
        }
      });
    });
    for (const group of this.groups) while (group.children.length > points.length) group.lastChild.remove();
    const shown = points.length ? [0, Math.floor(points.length / 2), points.length - 1] : [];
    this.axis.forEach((label, i) => setText(label, shown.length ? this.name(points[shown[i]]) : ""));
    setText(this.top, highest ? number(highest) : "");
    this.plot.setAttribute("aria-valuemax", String(Math.max(0, points.length - 1)));
    this.#read();
  }

  #sum(point) {
    return this.series.reduce((sum, { key }) => sum + (point[key] ?? 0), 0);
  }

  #point(event) {
    const box = this.plot.getBoundingClientRect();
    this.#choose(Math.floor(((event.clientX - box.left) / box.width) * this.#points.length));
  }

  #key(event) {
    const last = this.#points.length - 1;
    const at = this.#chosen < 0 ? last + 1 : this.#chosen;
    const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#choose(Math.min(Math.max(to, 0), last));
  }

  #choose(i) {
    this.#chosen = i < this.#points.length ? i : -1;
    this.#read();
  }

  /** Reads out the point that is chosen, or all of them. */
  #read() {
    const point = this.#points[this.#chosen];
    setText(this.when, point ? this.name(point) : this.all);
    const words = this.series.map(({ key, name }) => {
      const value = number(point ? point[key] ?? 0 : this.#points.reduce((sum, each) => sum + (each[key] ?? 0), 0));
      setText(this.values[key], value);
      return `${value} ${name}`;
    });
    const step = width / Math.max(1, this.#points.length);
    this.cursor.setAttribute("visibility", point ? "visible" : "hidden");
    this.cursor.setAttribute("x", String(this.#chosen * step));
    this.cursor.setAttribute("width", String(step));
    this.plot.setAttribute("aria-valuenow", String(point ? this.#chosen : Math.max(0, this.#points.length - 1)));
    this.plot.setAttribute("aria-valuetext", `${this.when.textContent}: ${words.join(", ")}`);
  }
}

/** A figure with the line of its last values. */
export class Figure {
  #values = [];

  constructor({ title, unit = "", help = "", format = number }) {
    this.format = format;
    this.value = h("b", { class: "figure" }, "–");
    this.line = s("polyline", { class: "line" });
    this.area = s("polygon", { class: "area" });
    this.help = h("small", {}, help);
    this.element = h("article", { class: "card stat" },
      h("header", {}, h("h3", {}, title)),
      h("p", {}, this.value, unit && ` ${unit}`),
      s("svg", { viewBox: "0 0 120 28", preserveAspectRatio: "none", "aria-hidden": "true" }, this.area, this.line),
      this.help);
  }

  update(value) {
    setText(this.value, this.format(value));
    this.#values = [...this.#values, value].slice(-60);
    const most = Math.max(1e-9, ...this.#values);
    const points = this.#values.map((each, i) => `${((i / 59) * 120).toFixed(1)},${(26 - (each / most) * 24).toFixed(1)}`);
    this.line.setAttribute("points", points.join(" "));
    this.area.setAttribute("points", `0,28 ${points.join(" ")} ${(((this.#values.length - 1) / 59) * 120).toFixed(1)},28`);
  }
}

/** How full something is. */
export class Meter {
  constructor(title) {
    this.fill = h("i", {});
    this.bar = h("div", { class: "bar-meter", role: "meter", "aria-label": title, "aria-valuemin": 0, "aria-valuemax": 100 }, this.fill);
    this.words = h("small", {});
    this.element = h("div", { class: "meter" }, h("p", {}, h("span", {}, title), this.words), this.bar);
  }

  update(share, words) {
    const percent = Math.min(100, Math.max(0, share * 100)) || 0;
    this.fill.style.width = `${percent}%`;
    this.bar.classList.toggle("nearly", percent > 90);
    this.bar.setAttribute("aria-valuenow", percent.toFixed(1));
    this.bar.setAttribute("aria-valuetext", words);
    setText(this.words, words);
  }
}
