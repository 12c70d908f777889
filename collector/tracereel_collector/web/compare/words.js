// Two texts word by word; ids that are new in every run are aligned. No elements here.

import { diffLines, diffWordsWithSpace } from "../vendor/diff.js";

/** Characters of both texts that are compared word by word; longer ones are compared by line. */
const BY_WORD = 60_000;
const PATIENCE_MS = 300;

/**
 * The second text with the ids of the first that the collector found to stand for its own.
 * @param {string} text
 * @param {[string, string][]} fresh
 */
export function withIdsOf(text, fresh) {
  const places = [];
  for (const [one, other] of fresh)
    for (let at = text.indexOf(other); other && at >= 0; at = text.indexOf(other, at + other.length))
      places.push({ at, end: at + other.length, one });
  let made = "";
  let done = 0;
  for (const { at, end, one } of places.sort((x, y) => x.at - y.at || y.end - x.end)) {
    if (at < done) continue;
    made += text.slice(done, at) + one;
    done = end;
  }
  return made + text.slice(done);
}

/**
 * What both texts have, what only the first and what only the second has, in order; null if that takes too long.
 * @param {string} a
 * @param {string} b
 * @param {[string, string][]} [fresh] ids of the first text and those of the second that they stand for
 * @returns {["same" | "removed" | "added", string][] | null}
 */
export function differenceOf(a, b, fresh = []) {
  const other = withIdsOf(b, fresh);
  const compare = a.length + b.length > BY_WORD ? diffLines : diffWordsWithSpace;
  const parts = compare(a, other, { timeout: PATIENCE_MS });
  return parts?.map(({ value, added, removed }) => [added ? "added" : removed ? "removed" : "same", value]) ?? null;
}

/**
 * Long parts that are the same, without their middle: `[kind, text]`, or `["gap", number of characters]`.
 * @param {[string, string][]} parts
 * @param {number} [around] characters that stay beside a difference
 * @returns {[string, any][]}
 */
export function inShort(parts, around = 160) {
  return parts.flatMap(/** @returns {[string, any][]} */ ([kind, text], at) => {
    if (kind !== "same" || text.length < around * 4) return [[kind, text]];
    const before = at === 0 ? "" : text.slice(0, around);
    const after = at === parts.length - 1 ? "" : text.slice(-around);
    const left = text.length - before.length - after.length;
    /** @type {[string, any][]} */
    const short = [["same", before], ["gap", left], ["same", after]];
    return short.filter(([name, said]) => name === "gap" || said);
  });
}
