// Histogram of start times; dragging, or arrow keys with Shift, selects a window.

import { h, svg } from "../shell/elements.js";
import { clock, count, several } from "../shell/words.js";

const WIDTH = 1000;
const HEIGHT = 56;

function runsOf(runs, failed) {
  return `${several(runs, "run")}${failed ? `, ${count(failed)} failed` : ""}`;
}

export class Histogram {
  constructor(choose) {
    this.choose = choose;
    this.drawing = svg("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    });
    this.selection = svg("rect", { class: "chosen", y: 0, height: HEIGHT, width: 0 });
    this.ends = h("div", { class: "ends" });
    this.handle = h(
      "div",
      {
        class: "histogram-handle",
        tabindex: "0",
        role: "slider",
        "aria-label": "When runs began",
        "aria-valuemin": 0,
        "aria-valuenow": 0,
        title:
          "Drag to choose a window; with the keyboard: arrows, with Shift to widen, Enter to choose, Escape to let go",
        on: { keydown: (event) => this.#key(event), blur: () => this.#letGo() },
      },
      this.drawing,
    );
    this.element = h("div", { class: "histogram" }, this.handle, this.ends);
    this.mark = null;
    this.drawing.addEventListener("pointerdown", (event) => this.#drag(event));
    this.drawing.addEventListener("pointermove", (event) => this.#hover(event));
    this.drawing.addEventListener("pointerleave", () => { if (!this.mark) this.#say(); });
  }

  show(histogram) {
    if (this.dragging) return;
    this.data = histogram;
    const { buckets } = histogram;
    const most = Math.max(1, ...buckets.map((each) => each.runs));
    const step = WIDTH / Math.max(1, buckets.length);
    const bars = buckets.flatMap(({ runs, failed }, index) => {
      if (!runs) return [];
      const tall = Math.max(2, (runs / most) * (HEIGHT - 4));
      const red = failed ? Math.max(2, (failed / runs) * tall) : 0;
      const place = { x: index * step + step * .08, width: step * .84 };
      return [
        svg("rect", { class: "ok", ...place, y: HEIGHT - tall, height: tall - red }),
        red && svg("rect", { class: "failed", ...place, y: HEIGHT - red, height: red }),
      ].filter(Boolean);
    });
    const failed = buckets.reduce((sum, each) => sum + each.failed, 0);
    this.drawing.replaceChildren(
      ...bars,
      svg("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
      this.selection,
    );
    this.summary = runsOf(histogram.total, failed);
    this.handle.setAttribute("aria-valuemax", Math.max(0, buckets.length - 1));
    if (this.mark) this.#point(this.mark);
    else this.#letGo();
  }

  /** Selects the buckets between the anchor and the current one. */
  #point(mark) {
    const { buckets } = this.data;
    const within = (index) => Math.min(buckets.length - 1, Math.max(0, index));
    this.mark = { anchor: within(mark.anchor), at: within(mark.at) };
    const [first, last] = [Math.min(this.mark.anchor, this.mark.at), Math.max(this.mark.anchor, this.mark.at)];
    const sum = (name) => buckets.slice(first, last + 1).reduce((total, each) => total + each[name], 0);
    this.selection.setAttribute("x", (first / buckets.length) * WIDTH);
    this.selection.setAttribute("width", ((last + 1 - first) / buckets.length) * WIDTH);
    const [begin, end] = [first, last + 1].map((at) => clock(this.#moment(at / buckets.length)));
    const said = `${begin} to ${end}: ${runsOf(sum("runs"), sum("failed"))}`;
    this.handle.setAttribute("aria-valuenow", this.mark.at);
    this.handle.setAttribute("aria-valuetext", said);
    this.#say(said);
    return [first, last + 1];
  }

  #letGo() {
    this.mark = null;
    this.selection.setAttribute("width", 0);
    this.handle.setAttribute("aria-valuetext", `${this.summary ?? ""} in this window`);
    this.#say();
  }

  #key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity }[event.key];
    if (!this.data?.buckets.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (by) {
      const last = this.data.buckets.length - 1;
      const at = this.mark ? Math.min(last, Math.max(0, this.mark.at + by)) : by < 0 ? last : 0;
      this.#point({ anchor: event.shiftKey && this.mark ? this.mark.anchor : at, at });
    } else if (event.key === "Enter" && this.mark) {
      const [first, end] = this.#point(this.mark);
      const many = this.data.buckets.length;
      this.mark = null;
      this.choose(this.#moment(first / many), this.#moment(end / many));
    } else if (event.key === "Escape" && this.mark) this.#letGo();
    else return;
    event.preventDefault();
  }

  #say(middle = this.summary) {
    if (!this.data?.buckets.length) return;
    const last = this.#moment(1);
    this.ends.replaceChildren(
      h("span", {}, clock(this.data.buckets[0].from)),
      h("span", {}, middle),
      h("span", {}, clock(last)),
    );
  }

  #moment(part) {
    const { buckets, step_seconds: step } = this.data;
    return new Date(Date.parse(buckets[0].from) + part * buckets.length * step * 1000).toISOString();
  }

  #part(event) {
    const box = this.drawing.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  }

  #hover(event) {
    if (this.mark || this.dragging || !this.data?.buckets.length) return;
    const index = Math.min(this.data.buckets.length - 1, Math.floor(this.#part(event) * this.data.buckets.length));
    const { from, runs, failed } = this.data.buckets[index];
    this.#say(`${clock(from)}: ${runsOf(runs, failed)}`);
  }

  #drag(event) {
    if (!this.data?.buckets.length) return;
    event.preventDefault();
    this.mark = null;
    this.dragging = true;
    const start = this.#part(event);
    let end = start;
    this.drawing.setPointerCapture(event.pointerId);
    const move = (moved) => {
      end = this.#part(moved);
      this.selection.setAttribute("x", Math.min(start, end) * WIDTH);
      this.selection.setAttribute("width", Math.abs(end - start) * WIDTH);
      this.#say(`${clock(this.#moment(Math.min(start, end)))} to ${clock(this.#moment(Math.max(start, end)))}`);
    };
    const done = () => {
      this.drawing.removeEventListener("pointermove", move);
      this.dragging = false;
      this.selection.setAttribute("width", 0);
      if (Math.abs(end - start) > 0.005)
        this.choose(this.#moment(Math.min(start, end)), this.#moment(Math.max(start, end)));
    };
    this.drawing.addEventListener("pointermove", move);
    this.drawing.addEventListener("pointerup", done, { once: true });
    this.drawing.addEventListener("pointercancel", done, { once: true });
  }
}
