// Two texts word by word; ids that are new in every run are aligned. No elements here.

import { diffLines, diffWordsWithSpace } from "../vendor/diff.js";

/** Characters of both texts that are compared word by word; longer ones are compared by line. */
const BY_WORD = 60_000;
const PATIENCE_MS = 300;
/** Ids and times that are new in every run, as `query/fresh_ids.py` has them. */
const FRESH = [
  /(?<![0-9A-Za-z])[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])/g,
  /(?<![0-9A-Za-z])\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?![0-9A-Za-z])/g,
  /(?<![0-9A-Za-z])(?:call|toolu|tooluse|fc|msg|rs)[-_]{1,2}(?=[\w-]{0,63}\d)[\w-]{6,64}(?![0-9A-Za-z])/g,
  /(?<![0-9A-Za-z])(?:resp|chatcmpl|run|lc_run|req|evt|trc|exec)[-_]{1,2}(?=[\w-]{0,63}\d)[\w-]{6,64}(?![0-9A-Za-z])/g,
  /(?<![0-9A-Za-z])(?=[0-9a-f]{0,63}\d)(?=[0-9a-f]{0,63}[a-f])[0-9a-f]{16,64}(?![0-9A-Za-z])/g,
];

/**
 * The second text with the ids of the first, where both have as many of a kind.
 * @param {string} a
 * @param {string} b
 */
export function withIdsOf(a, b) {
  return FRESH.reduce((text, pattern) => {
    const ids = a.match(pattern) ?? [];
    if (ids.length !== (text.match(pattern) ?? []).length) return text;
    let at = 0;
    return text.replace(pattern, () => ids[at++]);
  }, b);
}

/**
 * What both texts have, what only the first and what only the second has, in order; null if that takes too long.
 * @param {string} a
 * @param {string} b
 * @returns {["same" | "removed" | "added", string][] | null}
 */
export function differenceOf(a, b) {
  const other = withIdsOf(a, b);
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
