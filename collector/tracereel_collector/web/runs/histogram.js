// When runs began; dragging over it chooses a window.

import { h, svg } from "../shell/elements.js";
import { clock, count } from "../shell/words.js";

const WIDTH = 1000;
const HEIGHT = 56;

function runsOf(runs, failed) {
  return `${count(runs)} ${runs === 1 ? "run" : "runs"}${failed ? `, ${count(failed)} failed` : ""}`;
}

export class Histogram {
  constructor(choose) {
    this.choose = choose;
    this.drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.selection = svg("rect", { class: "chosen", y: 0, height: HEIGHT, width: 0 });
    this.ends = h("div", { class: "ends" });
    this.element = h("div", { class: "histogram" }, this.drawing, this.ends);
    this.drawing.addEventListener("pointerdown", (event) => this.#drag(event));
    this.drawing.addEventListener("pointermove", (event) => this.#point(event));
    this.drawing.addEventListener("pointerleave", () => this.#say());
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
    this.drawing.setAttribute("aria-label", `${count(histogram.total)} runs began in this window, ${count(failed)} of them failed`);
    this.drawing.replaceChildren(...bars, svg("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - .5, y2: HEIGHT - .5 }), this.selection);
    this.summary = runsOf(histogram.total, failed);
    this.#say();
  }

  #say(middle = this.summary) {
    if (!this.data?.buckets.length) return;
    const last = this.#moment(1);
    this.ends.replaceChildren(h("span", {}, clock(this.data.buckets[0].from)), h("span", {}, middle), h("span", {}, clock(last)));
  }

  #moment(part) {
    const { buckets, step_seconds: step } = this.data;
    return new Date(Date.parse(buckets[0].from) + part * buckets.length * step * 1000).toISOString();
  }

  #part(event) {
    const box = this.drawing.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  }

  #point(event) {
    if (this.dragging || !this.data?.buckets.length) return;
    const index = Math.min(this.data.buckets.length - 1, Math.floor(this.#part(event) * this.data.buckets.length));
    const { from, runs, failed } = this.data.buckets[index];
    this.#say(`${clock(from)}: ${runsOf(runs, failed)}`);
  }

  #drag(event) {
    if (!this.data?.buckets.length) return;
    event.preventDefault();
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
      if (Math.abs(end - start) > .005) this.choose(this.#moment(Math.min(start, end)), this.#moment(Math.max(start, end)));
    };
    this.drawing.addEventListener("pointermove", move);
    this.drawing.addEventListener("pointerup", done, { once: true });
    this.drawing.addEventListener("pointercancel", done, { once: true });
  }
}
