// Content of the selected step: as a conversation or values, as JSON, or as it was sent.

import { button, copyButton, h } from "../shell/elements.js";
import { choice } from "../shell/pieces.js";
import { failure } from "../shell/states.js";
import { conversationOf } from "./conversation.js";
import { warmUp } from "./lexer.js";
import { readContent, readRaw } from "./reading.js";
import { textOf } from "./text.js";
import { searchedTree } from "./tree.js";
import { valuesOf } from "./values.js";

/** How often content that is not stored yet is read again, and after what time. */
const MOST_TRIES = 10;
const AGAIN_MS = 500;
const MODES = ["read", "json", "raw"];
/** Chosen once, kept from step to step. */
let mode = MODES[0];

export class ContentView {
  /**
   * @param {{ trace: string, signal: AbortSignal, onContent: (content: import("./model.js").Content) => void }} given
   */
  constructor({ trace, signal, onContent }) {
    this.trace = trace;
    this.onContent = onContent;
    this.element = h("section", { class: "content", "aria-label": "Content" });
    this.step = "";
    this.version = "";
    this.content = null;
    this.drawing = new AbortController();
    signal.addEventListener("abort", () => this.drawing.abort());
    warmUp();
  }

  /** Shows a step; one that changed is read again, and stays as it is meanwhile. */
  show(step, version) {
    if (step === this.step && version === this.version) return;
    if (step !== this.step) this.content = null;
    this.step = step;
    this.version = version;
    this.#read();
  }

  /** An event may be there some milliseconds before its content. */
  #readSoon(isNewest, tries) {
    const timer = setTimeout(() => { if (isNewest()) this.#read(tries + 1); }, AGAIN_MS);
    this.asking.signal.addEventListener("abort", () => clearTimeout(timer));
  }

  async #read(tries = 0) {
    const { step, version } = this;
    const isNewest = () => this.step === step && this.version === version;
    if (!this.content) this.#begin(h("p", { class: "quiet", role: "status" }, "Reading the content …"));
    this.asking?.abort();
    this.asking = new AbortController();
    try {
      const content = await readContent(this.trace, step, { version, signal: this.asking.signal });
      if (!isNewest()) return;
      const same = this.content && JSON.stringify(content) === JSON.stringify(this.content);
      this.content = content;
      this.onContent(content);
      if (!same) this.#draw();
      if (content.omitted && tries < MOST_TRIES) this.#readSoon(isNewest, tries);
    } catch (error) {
      if (!isNewest() || error.name === "AbortError") return;
      this.version = "";
      this.#fail(error, () => this.show(step, version));
    }
  }

  #fail(error, again) {
    if (error.kind === "missing") this.#begin(h("p", { class: "quiet" }, "This step has no content of its own."));
    else this.#begin(failure(error, again));
  }

  #begin(...made) {
    this.drawing.abort();
    this.drawing = new AbortController();
    this.element.replaceChildren(...made.filter(Boolean));
    return this.drawing.signal;
  }

  #draw() {
    const reads = this.content.kind === "model" ? "Chat" : "Values";
    const names = [
      ["read", reads],
      ["json", "JSON"],
      ["raw", "Raw"],
    ];
    const place = h("div", { class: "content-body" });
    const signal = this.#begin(
      h(
        "div",
        { class: "content-modes" },
        choice("How to show the content", names, mode, (chosen) => {
          mode = chosen;
          this.#draw();
          this.element.querySelector(`[aria-pressed="true"]`)?.focus({ preventScroll: true });
        }),
      ),
      this.content.omitted &&
        h("p", { class: "warn", role: "status" },
          "Not all of the content can be read yet. ",
          button("Read again", () => this.#read(), { class: "small" })),
      place,
    );
    const { content, trace } = this;
    if (mode === "raw") this.#drawRaw(place, signal);
    else if (mode === "json") {
      place.append(
        copied("JSON", () => JSON.stringify(content, null, 2)),
        searchedTree(content, { signal, label: "the content" }),
      );
    } else
      place.append(
        content.kind === "model" ? conversationOf(content, { trace, signal }) : valuesOf(content, { signal }),
      );
  }

  async #drawRaw(place, signal) {
    place.append(h("p", { class: "quiet", role: "status" }, "Reading it as it was sent …"));
    try {
      const raw = await readRaw(this.trace, this.step, signal);
      if (signal.aborted) return;
      const text = JSON.stringify(raw, null, 2) ?? "null";
      place.replaceChildren(copied("Raw", text), textOf(text, { laidOut: false, signal }));
    } catch (error) {
      if (!signal.aborted && error.name !== "AbortError") place.replaceChildren(failure(error, () => this.#draw()));
    }
  }
}

function copied(what, text) {
  return h("div", { class: "copy-line" }, copyButton(text, "Copy", what));
}
