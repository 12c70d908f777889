// Question and answer of a run: those of its first step.

import { h } from "../shell/elements.js";
import { plain } from "../shell/words.js";
import { block, isNothing } from "./block.js";
import { askedAndAnswered } from "./model.js";
import { readContent } from "./reading.js";

export class QuestionAndAnswer {
  /** @param {{ trace: string, signal: AbortSignal }} options */
  constructor({ trace, signal }) {
    this.trace = trace;
    this.signal = signal;
    this.version = null;
    this.shown = null;
    this.element = h("div", { class: "values" });
  }

  /** Shows a step; `outcome` is the answer of one that recorded no other. */
  async show(step, version, outcome) {
    if (`${step} ${version}` === this.version) return;
    this.version = `${step} ${version}`;
    const now = this.version;
    if (!this.shown) this.element.replaceChildren(h("p", { class: "quiet", role: "status" }, "Reading the question …"));
    let said;
    try {
      said = askedAndAnswered(await readContent(this.trace, step, { version, signal: this.signal }));
    } catch (error) {
      if (this.signal.aborted || this.version !== now) return;
      this.version = null; // asked again when the run is drawn again
      const missing = error.kind === "missing";
      if (!missing) this.element.replaceChildren(h("p", { class: "quiet" }, plain(error.message)));
      if (!missing) return;
      said = { asked: null, answered: null };
    }
    if (this.version !== now && this.version !== null) return;
    if (isNothing(said.answered)) said.answered = outcome;
    if (JSON.stringify(said) === this.shown) return;
    this.shown = JSON.stringify(said);
    const options = { laidOut: true, signal: this.signal };
    const made = [block("Asked", said.asked, options), block("Answered", said.answered, options)];
    this.element.replaceChildren(...made.filter(Boolean));
  }
}
