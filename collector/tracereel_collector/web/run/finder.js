// Search inside a run: which steps have the words, the next one, marks in the panel; and the next error.

import { readContent } from "../content/reading.js";
import { button, h } from "../shell/elements.js";
import { hitsIn, isEmpty, wantedOf } from "../shell/hits.js";
import { count } from "../shell/words.js";
import { readEvents } from "./reading.js";
import { Found } from "./found.js";

const FAILED = new Set(["failed", "crashed", "error"]);
const MOST_MARKS = 500;
const MOST_CHARACTERS = 400_000;
const PAUSE_MS = 250;
const SETTLED_MS = 300;
const STILL_MS = 1200;
const MOST_UNFOLDED = 20;
/** Model calls whose content is read if nothing else has the words: log records of a span may have its messages. */
const MOST_READ = 40;

export class Finder {
  /**
   * `onHit` is called with the id of a step; `run` returns the run as it is; hits are marked in `panel`.
   * @param {{ id: string, run: () => any, panel: HTMLElement, signal: AbortSignal,
   *   onHit: (step: string) => void, onChange: () => void }} options
   */
  constructor({ id, run, panel, signal, onHit, onChange }) {
    this.id = id;
    this.run = run;
    this.panel = panel;
    this.signal = signal;
    this.onHit = onHit;
    this.onChange = onChange;
    this.wanted = wantedOf("");
    this.hits = [];
    this.whole = true;
    this.field = h("input", {
      type: "text",
      "aria-label": "Find in the run",
      placeholder: "Find in the run",
      autocomplete: "off",
      maxlength: 400,
      spellcheck: "false",
      on: {
        input: () => {
          clearTimeout(this.pause);
          this.pause = setTimeout(() => this.find(this.field.value), PAUSE_MS);
        },
        keydown: (event) => this.#key(event),
      },
    });
    this.said = h("span", { class: "quiet finder-said", role: "status" });
    const next = (by) => () => this.next(by);
    this.element = h(
      "span",
      { class: "finder", role: "search" },
      this.field,
      this.said,
      button("‹", next(-1), { class: "small", "aria-label": "Hit before", title: "Hit before (p)" }),
      button("›", next(1), { class: "small", "aria-label": "Next hit", title: "Next hit (n)" }),
      button("Next error", () => this.nextError(1), { class: "small errors", title: "Next error (x)" }),
    );
    // The panel changes while it is read: content arrives, is folded and unfolded.
    this.watch = new MutationObserver(() => this.#markSoon());
    this.watch.observe(panel, { childList: true, subtree: true, characterData: true });
    for (const type of ["wheel", "pointerdown", "keydown"])
      panel.addEventListener(type, () => { this.scroll = false; }, { passive: true });
    signal.addEventListener("abort", () => {
      this.watch.disconnect();
      this.#clear();
      clearTimeout(this.pause);
      clearTimeout(this.settled);
    });
  }

  /** Looks for words; with `go`, opens the first step that has them. */
  async find(text, { go = true } = {}) {
    if (this.field.value !== text) this.field.value = text;
    this.wanted = wantedOf(text);
    this.hits = [];
    this.#clear();
    const number = (this.number = (this.number ?? 0) + 1);
    this.onChange();
    if (isEmpty(this.wanted)) { this.#say(""); return; }
    this.#say("searching …");
    const found = new Found(this.wanted);
    const run = this.run();
    for (const step of run.steps) found.add(step.id, withoutLinks(step));
    try {
      await readEvents(this.id, (entries) => {
        for (const { step, details } of entries) if (step?.id) found.add(step.id, details);
        this.#stillAsked(number);
      }, { signal: this.signal });
      const calls = run.steps.filter(({ kind, source }) => kind === "llm" && source === "otlp");
      for (const { id } of found.any ? [] : calls.slice(0, MOST_READ)) {
        found.add(id, await readContent(this.id, id, { signal: this.signal }));
        this.#stillAsked(number);
      }
    } catch (error) {
      if (this.signal.aborted || number !== this.number) return;
      if (!error.kind) throw error; // what was read is searched all the same
    }
    if (number !== this.number) return;
    const { steps, whole } = found.best();
    this.whole = whole;
    this.hits = this.run().steps.map(({ id }) => id).filter((id) => steps.has(id));
    this.onChange();
    this.#count();
    // The call is preferred to the agent above it, which repeats the text of its calls.
    const { steps: all } = this.run();
    const inner = all.findIndex((step, at) => steps.has(step.id) && !isBelow(all, at, ({ id }) => steps.has(id)));
    if (go && inner >= 0) this.#open(this.hits.indexOf(all[inner].id));
    else this.#markSoon();
  }

  #stillAsked(number) {
    if (number !== this.number) throw new DOMException("Another search began", "AbortError");
  }

  has(step) {
    return this.hits.includes(step);
  }

  next(by) {
    if (!this.hits.length) { this.field.focus(); return; }
    const at = this.hits.indexOf(this.current);
    this.#open((at + by + this.hits.length) % this.hits.length);
  }

  nextError(by) {
    const { steps } = this.run();
    // The step that failed first is distinguished from those above it, which fail because of it.
    const isFailed = (step) => FAILED.has(step.status);
    const failed = steps.filter((step, at) => isFailed(step) && !isBelow(steps, at, isFailed));
    if (!failed.length) return;
    const at = failed.findIndex((step) => step.id === this.selected);
    this.onHit(failed[(at + by + failed.length) % failed.length].id);
  }

  /** Notes the step that is open, and whether there are errors to go to. */
  show(selected) {
    this.selected = selected;
    if (this.hits.includes(selected)) this.current = selected;
    this.element.classList.toggle("no-errors", !this.run().steps.some((step) => FAILED.has(step.status)));
    this.#count();
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  #open(index) {
    this.current = this.hits[index];
    this.scroll = true;
    this.unfolded = 0;
    this.until = null;
    this.onHit(this.current);
    this.#count();
    this.#markSoon();
  }

  #key(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      if (this.field.value !== this.asked) this.find(this.field.value);
      else this.next(event.shiftKey ? -1 : 1);
    }
    this.asked = this.field.value;
  }

  #count() {
    if (isEmpty(this.wanted)) return;
    const at = this.hits.indexOf(this.selected);
    const many = `${count(this.hits.length)} ${this.hits.length === 1 ? "step" : "steps"}`;
    this.#say(this.hits.length === 0 ? "not found" : at < 0 ? many : `${at + 1} of ${many}`);
  }

  #say(text) {
    this.said.textContent = text;
    this.element.classList.toggle("asked", text !== "");
  }

  #clear() {
    globalThis.CSS?.highlights?.delete("run-hit");
  }

  #markSoon() {
    if (this.waiting || isEmpty(this.wanted)) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = null; this.#mark(); });
  }

  /** Marks hits by ranges, which leaves the elements of others as they are. */
  #mark() {
    if (!globalThis.Highlight || this.signal.aborted) return;
    const ranges = [];
    let left = MOST_CHARACTERS;
    const walker = document.createTreeWalker(this.panel, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && left > 0 && ranges.length < MOST_MARKS; node = walker.nextNode()) {
      const text = node.nodeValue;
      left -= text.length;
      for (const [start, end] of hitsIn(text, this.wanted, { whole: this.whole, most: MOST_MARKS - ranges.length })) {
        const range = new Range();
        range.setStart(node, start);
        range.setEnd(node, end);
        ranges.push(range);
      }
    }
    CSS.highlights.set("run-hit", new Highlight(...ranges));
    if (!this.scroll || this.selected !== this.current) return;
    clearTimeout(this.settled);
    if (!ranges.length) {
      this.settled = setTimeout(() => this.#unfold(), SETTLED_MS);
      return;
    }
    // Content is laid out in several steps, so the place of the hit may change for a moment.
    this.until ??= performance.now() + STILL_MS;
    if (performance.now() > this.until) this.scroll = false;
    const place = ranges[0].startContainer.parentElement;
    for (let each = place; each && each !== this.panel; each = each.parentElement)
      if (each.matches("details:not([open]) > :not(summary)")) each.parentElement.setAttribute("open", "");
    bringIntoView(ranges[0]);
  }

  /** The hit is not among what is shown: unfolds one more part of the content, which is marked in turn. */
  #unfold() {
    if (this.signal.aborted || this.unfolded >= MOST_UNFOLDED) return;
    this.unfolded += 1;
    const all = this.panel.querySelector(".show-all");
    const folded = this.panel.querySelector(".content details:not([open])");
    if (all instanceof HTMLElement) all.click();
    else folded?.setAttribute("open", "");
  }
}

/** Whether a step below that at a place passes a test. */
function isBelow(steps, at, test) {
  for (let next = at + 1; next < steps.length && steps[next].depth > steps[at].depth; next++)
    if (test(steps[next])) return true;
  return false;
}

/** What the step says, without the links between steps. */
function withoutLinks(step) {
  const { parent, critical, ...own } = step;
  return own;
}

/** Scrolls what is around a range until it is in the upper half. */
function bringIntoView(range) {
  for (let each = range.startContainer.parentElement; each; each = each.parentElement) {
    if (each.scrollHeight <= each.clientHeight + 1 || getComputedStyle(each).overflowY === "visible") continue;
    const box = each === document.documentElement ? { top: 0 } : each.getBoundingClientRect();
    each.scrollTop += range.getBoundingClientRect().top - box.top - each.clientHeight / 3;
  }
}
