// Which steps have the searched words: whole words in one step if there are such steps, else parts, else some words.
// Pure: no document, no requests.

import { structureOf } from "../content/model.js";
import { hitsIn } from "../shell/hits.js";

const MOST_TEXTS = 5000;
const DEEPEST = 12;

/** Calls `each` with every text inside of a value, also in JSON that is text; names of fields are not texts. */
export function textsIn(value, each, depth = DEEPEST) {
  if (typeof value === "string") {
    each(value);
    const inside = structureOf(value); // whose breaks and letters are escaped in the text
    if (inside) textsIn(inside, each, depth - 1);
  } else if (depth > 0 && value && typeof value === "object")
    for (const one of Array.isArray(value) ? value.slice(0, MOST_TEXTS) : Object.values(value))
      textsIn(one, each, depth - 1);
}

export class Found {
  constructor(wanted) {
    this.parts = [...wanted.phrases, ...wanted.words];
    this.alone = this.parts.map((part, at) =>
      at < wanted.phrases.length ? { phrases: [part], words: [] } : { phrases: [], words: [part] });
    /** By step: for each word, 2 if it is there as a whole, 1 if as a part. */
    this.steps = new Map();
  }

  add(step, value) {
    textsIn(value, (text) => {
      const lower = text.toLowerCase();
      this.parts.forEach((part, at) => {
        if (!lower.includes(part)) return;
        if (!this.steps.has(step)) this.steps.set(step, new Uint8Array(this.parts.length));
        const known = this.steps.get(step);
        if (known[at] < 2) known[at] = hitsIn(text, this.alone[at], { most: 1 }).length ? 2 : Math.max(1, known[at]);
      });
    });
  }

  /** Whether a step has all words. */
  get any() {
    return [...this.steps.values()].some((known) => known.every(Boolean));
  }

  /** The steps that match best, and whether they have whole words. */
  best() {
    const those = (test) => new Set([...this.steps].filter(([, known]) => test([...known])).map(([step]) => step));
    /** @type {[Set<string>, boolean][]} */
    const levels = [
      [those((known) => known.every((each) => each === 2)), true],
      [those((known) => known.every(Boolean)), false],
      [those((known) => known.includes(2)), true],
      [those(() => true), false],
    ];
    const [steps, whole] = levels.find(([found]) => found.size) ?? levels[0];
    return { steps, whole };
  }
}
