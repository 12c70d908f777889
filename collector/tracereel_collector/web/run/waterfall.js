// Waterfall: every step as a bar on one time scale, with critical path and playhead.

import { button, h } from "../shell/elements.js";
import { colourOf, cost, count, duration, kindName, plain, roundStep, signOf } from "../shell/words.js";
import { Rows } from "./rows.js";

const ROW = { mouse: 25, finger: 44 };
/** Parts of the critical path below this percentage of the width are not drawn. */
const SPECK = .4;
const KINDS = {
  pipeline: "▤", agent: "◆", llm: "✦", tool: "⚙", retrieval: "⌕", step: "▸", attempt: "↻", retry: "↻", fallback: "⤷",
};
const KNOWN = new Set([
  "success",
  "failed",
  "crashed",
  "partial_success",
  "retried",
  "running",
  "cancelled",
  "unknown",
]);

/** Legend of the marks under the bars. */
function legend() {
  return h(
    "span",
    { class: "legend", title: "What the run was waiting for: what is shorter there makes the run shorter" },
    h("i", { "aria-hidden": "true" }),
    "critical path",
  );
}

export class Waterfall {
  /**
   * `onZoom` is called after a zoom with its ends in milliseconds, or with nothing for the whole run.
   * @param {{ onSelect: (step: string) => void, onSeek: (moment: number) => void,
   *   onZoom?: (from?: number, to?: number) => void }} options
   */
  constructor({ onSelect, onSeek, onZoom = () => {} }) {
    this.onZoom = onZoom;
    /** @type {(step: string) => boolean} whether a step is a hit of a search */
    this.isHit = () => false;
    this.folded = new Set();
    this.selected = null;
    this.moment = 0;
    this.from = 0;
    this.to = 1;
    this.onSelect = onSelect;
    this.onSeek = onSeek;
    this.rows = new Rows({
      heights: ROW,
      draw: (step) => this.#draw(step),
      label: "Steps of the run",
      role: "tree",
      className: "waterfall-rows",
    });
    this.rows.after = () => this.#mark();
    this.ticks = h("div", {
      class: "ticks",
      on: { pointerdown: (event) => this.#scrub(event) },
      title: "Click or drag to move the playhead",
    });
    this.back = button("Whole run", () => this.zoom(null), {
      class: "small zoom-out",
      title: "Zoom out (0)",
      hidden: true,
    });
    this.head = h(
      "div",
      { class: "waterfall-head" },
      h("div", { class: "names" }, "Step", this.back, legend()),
      this.ticks,
    );
    this.playhead = h("div", { class: "playhead", "aria-hidden": "true" });
    this.track = h("div", { class: "playtrack", "aria-hidden": "true" }, this.playhead);
    this.element = h(
      "div",
      { class: "waterfall" },
      this.head,
      h("div", { class: "waterfall-body" }, this.rows.element, this.track),
    );
    this.rows.element.addEventListener("click", (event) => this.#click(event));
    this.rows.element.addEventListener("dblclick", (event) => this.#zoomOn(event));
  }

  set(run, { keepZoom = false } = {}) {
    this.run = run;
    const deepest = run.steps.reduce((most, step) => Math.max(most, step.depth), 0);
    this.element.style.setProperty("--fit", `${(110 / Math.max(1, deepest)).toFixed(2)}px`);
    if (!keepZoom) [this.from, this.to] = [0, run.length];
    else if (this.whole) this.to = run.length;
    this.#refresh();
  }

  get whole() {
    return this.from === 0 && (this.to >= this.previous || this.to === this.run.length);
  }

  /** Draws the rows again, as when the hits of a search are others. */
  redraw() {
    this.#refresh();
  }

  #refresh() {
    this.back.hidden = this.whole;
    this.previous = this.run.length;
    this.visible = this.run.visible(this.folded);
    this.#drawTicks();
    this.rows.set(this.visible);
    this.seek(this.moment);
  }

  #part(moment) {
    return ((moment - this.from) / (this.to - this.from)) * 100;
  }

  #drawTicks() {
    const span = this.to - this.from;
    const step = roundStep(span / Math.max(3, Math.min(8, (this.ticks.clientWidth || 700) / 110)));
    const ticks = [];
    for (let at = Math.ceil(this.from / step) * step; at <= this.to - step * .35; at += step) {
      ticks.push(
        h(
          "span",
          { vars: { left: `${this.#part(at)}%` } },
          at === 0 ? "0" : duration(Number(at.toPrecision(6))).replace(/\.0+ /, " "),
        ),
      );
    }
    this.ticks.replaceChildren(...ticks);
  }

  #draw(step) {
    const colour = colourOf(step.agent ?? step.name);
    const kind = KNOWN.has(step.status) ? step.status : "unknown";
    const left = this.#part(step.begin);
    const right = this.#part(step.finish);
    const width = Math.max(0, Math.min(right, 100.5) - Math.max(left, -.5));
    const outside = right < 0 || left > 100;
    const bar = outside ? null : h("span", {
      class: `step-bar s-${kind} k-${KINDS[step.kind] ? step.kind : "span"}${step.open ? " open" : ""}`,
      vars: { "--agent": colour, left: `min(${Math.max(left, -.5)}%, 100% - 2px)`, width: `${width}%` },
    });
    const critical = (step.critical ?? []).map(({ offset_ms: at, duration_ms: long }) => {
      const [a, b] = [Math.max(0, this.#part(at)), Math.min(100, this.#part(at + long))];
      return b > 0 && a < 100 && b - a > SPECK
        ? h("i", { class: "critical", vars: { left: `${a}%`, width: `${b - a}%` } })
        : null;
    });
    const beside = outside
      ? null
      : right < 78
        ? h("span", { class: "bar-text", vars: { left: `calc(${Math.max(0, right)}% + 6px)` } }, this.#text(step))
        : left > 18
          ? h("span", { class: "bar-text before", vars: { right: `calc(${100 - left}% + 6px)` } }, this.#text(step))
          : h(
              "span",
              { class: "bar-text inside", vars: { left: `calc(${Math.max(0, left)}% + 6px)` } },
              this.#text(step),
            );
    const name = plain(step.name);
    const attempt = step.attempt ? ` #${step.attempt}` : "";
    const row = h(
      "div",
      {
        class: [
          "step-row",
          step.id === this.selected && "selected",
          step.wasted && "wasted",
          this.isHit(step.id) && "hit",
        ].filter(Boolean).join(" "),
        id: `step-${step.index}`,
        role: "treeitem",
        "aria-level": step.depth + 1,
        "aria-selected": String(step.id === this.selected),
        "aria-expanded": step.children ? String(!this.folded.has(step.id)) : null,
        "aria-label": [
          `${name}${attempt} ${outside ? "" : this.#text(step)}`,
          kindName(step.kind),
          step.status.replaceAll("_", " "),
          `at ${duration(step.begin)}`,
          step.critical && "on the critical path",
          this.isHit(step.id) && "found",
          step.clock_shift_ms && `moved by ${duration(step.clock_shift_ms)} because clocks disagree`,
        ].filter(Boolean).join(", "),
        "data-index": step.index,
      },
      h(
        "span",
        { class: "names", vars: { "--depth": step.depth } },
        step.children
          ? h(
              "button",
              { type: "button", class: "fold", tabindex: "-1", "aria-hidden": "true" },
              this.folded.has(step.id) ? "▸" : "▾",
            )
          : h("span", { class: "fold" }),
        h(
          "span",
          { class: "kind", title: kindName(step.kind), "aria-hidden": "true", vars: { "--agent": colour } },
          KINDS[step.kind] ?? "○",
        ),
        h("span", { class: "step-name", title: name }, name),
        attempt && h("small", { class: "attempt" }, attempt),
        kind !== "success" &&
          h("span", { class: `sign s-${kind}`, title: kind.replaceAll("_", " "), "aria-hidden": "true" }, signOf(kind)),
        step.clock_shift_ms &&
          h(
            "span",
            {
              class: "sign warn",
              "aria-hidden": "true",
              title: `Moved by ${duration(step.clock_shift_ms)}: the clocks disagree`,
            },
            "±",
          ),
      ),
      " ",
      h("span", { class: "track", "aria-hidden": "true" }, bar, critical, beside),
    );
    row.step = step;
    this.#paint(row);
    return row;
  }

  #text(step) {
    const parts = [step.open ? "not ended" : duration(step.duration_ms)];
    if (step.kind === "llm" && step.tokens) parts.push(`${count(step.tokens)} tokens`);
    if (step.kind === "llm" && step.cost_usd) parts.push(cost(step.cost_usd));
    return parts.join(" · ");
  }

  #paint(row) {
    const { step } = row;
    row.classList.toggle("future", step.begin > this.moment);
    row.classList.toggle(
      "now",
      step.begin <= this.moment && step.finish > this.moment && this.moment < this.run.length,
    );
  }

  #mark() {
    const active = this.run && this.run.byId.get(this.selected);
    if (active) this.rows.element.setAttribute("aria-activedescendant", `step-${active.index}`);
  }

  seek(moment) {
    this.moment = moment;
    const part = this.#part(moment);
    this.playhead.hidden = part < 0 || part > 100;
    this.playhead.style.setProperty("left", `${part}%`);
    for (const row of this.rows.shown.values()) this.#paint(row);
  }

  #scrub(event) {
    const box = this.ticks.getBoundingClientRect();
    const move = (moved) => {
      const part = Math.min(1, Math.max(0, (moved.clientX - box.left) / box.width));
      this.onSeek(this.from + part * (this.to - this.from));
    };
    event.preventDefault();
    this.ticks.setPointerCapture(event.pointerId);
    this.ticks.addEventListener("pointermove", move);
    this.ticks.addEventListener("pointerup", () => this.ticks.removeEventListener("pointermove", move), { once: true });
    move(event);
  }

  #click(event) {
    const row = event.target.closest(".step-row");
    if (!row) return;
    if (event.target.closest("button.fold")) this.fold(row.step);
    else this.onSelect(row.step.id);
  }

  #zoomOn(event) {
    const row = event.target.closest(".step-row");
    if (row && event.target.closest(".track")) this.zoom(row.step);
  }

  /** Shows a step as wide as the waterfall is; without one, the whole run. */
  zoom(step) {
    if (step) {
      const room = Math.max((step.finish - step.begin) * .08, this.run.length * 1e-6);
      [this.from, this.to] = [Math.max(0, step.begin - room), Math.min(this.run.length, step.finish + room)];
    } else [this.from, this.to] = [0, this.run.length];
    this.#refresh();
    if (step) this.onZoom(this.from, this.to);
    else this.onZoom();
  }

  /** Shows a part of the run, as a link has it. */
  zoomTo(from, to) {
    if (!(from >= 0 && to > from && from < this.run.length)) return;
    [this.from, this.to] = [from, Math.min(to, this.run.length)];
    this.#refresh();
  }

  fold(step, shut = !this.folded.has(step.id)) {
    if (!step.children) return;
    if (shut) this.folded.add(step.id);
    else this.folded.delete(step.id);
    this.#refresh();
  }

  select(id, { reveal = true } = {}) {
    this.selected = id;
    const step = this.run.byId.get(id);
    let opened = false;
    for (let above = step?.parent; above; above = above.parent) opened = this.folded.delete(above.id) || opened;
    if (opened) this.#refresh();
    for (const row of this.rows.shown.values()) {
      const chosen = row.step.id === id;
      row.classList.toggle("selected", chosen);
      row.setAttribute("aria-selected", String(chosen));
    }
    if (step && reveal) this.rows.reveal(this.visible.indexOf(step));
    this.#mark();
  }

  move(by) {
    const at = this.visible.findIndex((step) => step.id === this.selected);
    const to = at < 0 ? 0 : Math.min(this.visible.length - 1, Math.max(0, at + by));
    if (!this.visible[to]) return;
    this.onSelect(this.visible[to].id);
    this.rows.element.focus({ preventScroll: true }); // so that a screen reader announces the position
  }

  /** Left folds or goes to the parent, right unfolds or goes to the first child. */
  turn(out) {
    const step = this.run.byId.get(this.selected);
    if (!step) return;
    if (out) {
      if (this.folded.has(step.id)) this.fold(step, false);
      else if (step.children) this.move(1);
    } else if (step.children && !this.folded.has(step.id)) this.fold(step, true);
    else if (step.parent) this.onSelect(step.parent.id);
  }

  stop() {
    this.rows.stop();
  }
}
