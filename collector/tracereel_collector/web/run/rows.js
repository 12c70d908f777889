// Virtual list: draws only the visible rows, so that long lists cost as much as short ones.

import { h } from "../shell/elements.js";

const MARGIN = 8;
/** Fingers need higher rows than a mouse. Changes when a mouse is attached to a tablet. */
const FINGER = matchMedia("(pointer: coarse)");

export class Rows {
  /** `draw(item, index)` makes the element of an item; all are as high as `heights` says for what is pointed with. */
  constructor({ heights, draw, label, role, className }) {
    this.heights = heights;
    this.draw = draw;
    this.items = [];
    /** Called after every rendering. */
    this.after = () => {};
    this.shown = new Map();
    this.filler = h("div", { class: "filler", role: "presentation" });
    this.element = h("div", { class: `rows ${className}`, tabindex: "0", role, "aria-label": label }, this.filler);
    this.element.addEventListener("scroll", () => this.#soon(), { passive: true });
    this.watch = new ResizeObserver(() => this.#soon());
    this.watch.observe(this.element);
    this.measured = new AbortController();
    FINGER.addEventListener("change", () => this.#measure(), { signal: this.measured.signal });
    this.#measure();
  }

  /** The sheet draws rows as high (`--row`) as they are reckoned with here; the first one in view stays the first. */
  #measure() {
    const first = this.height ? this.element.scrollTop / this.height : 0;
    this.height = FINGER.matches ? this.heights.finger : this.heights.mouse;
    this.element.style.setProperty("--row", `${this.height}px`);
    this.set(this.items);
    this.element.scrollTop = first * this.height;
  }

  set(items) {
    this.items = items;
    this.filler.style.setProperty("height", `${items.length * this.height}px`);
    this.redraw();
  }

  /** Draws all visible rows. */
  redraw() {
    for (const row of this.shown.values()) row.remove();
    this.shown.clear();
    this.#render();
  }

  #soon() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = null; this.#render(); });
  }

  #render() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - MARGIN);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.height) + MARGIN);
    for (const [index, row] of this.shown) {
      if (index < first || index >= last) { row.remove(); this.shown.delete(index); }
    }
    for (let index = first; index < last; index += 1) {
      if (this.shown.has(index)) continue;
      const row = this.draw(this.items[index], index);
      row.style.setProperty("top", `${index * this.height}px`);
      this.shown.set(index, row);
      this.filler.append(row);
    }
    this.after();
  }

  /** Scrolls as little as is needed to see a row. */
  reveal(index, { center = false } = {}) {
    const { scrollTop, clientHeight } = this.element;
    const top = index * this.height;
    if (center) this.element.scrollTop = top - clientHeight / 2;
    else if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.height > scrollTop + clientHeight) this.element.scrollTop = top + this.height - clientHeight;
    this.#render();
  }

  stop() {
    this.watch.disconnect();
    this.measured.abort();
    cancelAnimationFrame(this.waiting);
  }
}
