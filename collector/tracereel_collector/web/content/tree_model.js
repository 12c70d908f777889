// A JSON value as a tree: what is open at first, pages of long lists, search. No elements here.

/** Children in one page of a list. */
export const PAGE = 100;
const MOST_HITS = 1_000;
const MOST_NODES = 400_000;

export function isBranch(value) {
  return value !== null && typeof value === "object";
}

/** Number of children. */
export function sizeOf(value) {
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

/**
 * Branches to be open at first: the outer ones, as long as all their children fit into some rows.
 * @param {any} value
 * @param {number} rows
 * @returns {Set<object>}
 */
export function openAtFirst(value, rows) {
  const open = new Set();
  let left = rows;
  let level = isBranch(value) ? [value] : [];
  for (let depth = 0; level.length && depth < 8; depth += 1) {
    const next = [];
    for (const branch of level) {
      const many = sizeOf(branch);
      if (many > left && depth > 0) continue;
      left -= many;
      open.add(branch);
      if (many <= PAGE) next.push(...Object.values(branch).filter(isBranch));
    }
    level = next;
  }
  return open;
}

/**
 * Ranges into which a list is divided, at most a page of them; null if it is a page itself.
 * @param {number} from
 * @param {number} to
 * @returns {[number, number][] | null}
 */
export function rangesOf(from, to) {
  if (to - from <= PAGE) return null;
  let size = PAGE;
  while ((to - from) / size > PAGE) size *= PAGE;
  /** @type {[number, number][]} */
  const ranges = [];
  for (let at = from; at < to; at += size) ranges.push([at, Math.min(to, at + size)]);
  return ranges;
}

/**
 * Places where a text occurs in keys or values, in order; `more` if the search ended before the value did.
 * @param {any} value
 * @param {string} wanted
 * @returns {{ hits: (string | number)[][], more: boolean }}
 */
export function find(value, wanted, { most = MOST_HITS, nodes = MOST_NODES } = {}) {
  const needle = wanted.toLowerCase();
  const hits = [];
  let left = nodes;
  const waiting = [{ value, key: null, parent: null }];
  while (waiting.length) {
    const here = waiting.pop();
    if (hits.length >= most || (left -= 1) < 0) return { hits, more: true };
    const branch = isBranch(here.value);
    const inKey = typeof here.key === "string" && here.key.toLowerCase().includes(needle);
    if (inKey || (!branch && String(here.value).toLowerCase().includes(needle))) hits.push(pathOf(here));
    if (!branch) continue;
    const keys = Array.isArray(here.value) ? here.value.keys() : Object.keys(here.value);
    const below = [];
    for (const key of keys) {
      if (below.length > left) break;
      below.push({ value: here.value[key], key, parent: here });
    }
    while (below.length) waiting.push(below.pop());
  }
  return { hits, more: false };
}

function pathOf(node) {
  const path = [];
  for (let each = node; each.parent; each = each.parent) path.push(each.key);
  return path.reverse();
}

/**
 * A branch in a few characters: its first keys or its length.
 * @param {any} value
 */
export function hintOf(value) {
  if (Array.isArray(value)) return value.length === 1 ? "1 item" : `${value.length.toLocaleString("en-US")} items`;
  const keys = Object.keys(value);
  if (!keys.length) return "nothing";
  const shown = keys.slice(0, 4).map((key) => (key.length > 24 ? `${key.slice(0, 23)}…` : key)).join(", ");
  return keys.length > 4 ? `${shown} … ${keys.length.toLocaleString("en-US")} keys` : shown;
}
