// A JSON value as a tree that unfolds; children are made when they are asked for, long lists in pages.

import { button, h } from "../shell/elements.js";
import { count, plain } from "../shell/words.js";
import { structureOf } from "./model.js";
import { textOf } from "./text.js";
import { find, hintOf, isBranch, openAtFirst, rangesOf, sizeOf } from "./tree_model.js";

const SHORT = 100;
const ROWS = 30;
const DEEPEST = 200;

/**
 * @typedef {{ open: Set<object>, signal?: AbortSignal, depth: number }} Context
 * @typedef {{ element: HTMLElement, unfold?: () => void, child?: (key: any) => TreeNode | null }} TreeNode
 */

/**
 * @param {any} value
 * @param {{ rows?: number, signal?: AbortSignal, label?: string }} [options]
 */
export function treeOf(value, { rows = ROWS, signal, label = "Value" } = {}) {
  return rootOf(value, { rows, signal, label }).element;
}

function rootOf(value, { rows, signal, label }) {
  /** @type {Context} */
  const context = { open: openAtFirst(value, rows), signal, depth: 0 };
  if (!isBranch(value)) {
    const leaf = leafOf(null, value, context);
    return { element: h("div", { class: "tree" }, h("ul", { "aria-label": label }, leaf.element)), child: () => null };
  }
  const list = listOf(value, 0, sizeOf(value), context);
  return { element: h("div", { class: "tree" }, labelled(list.element, label)), child: list.child };
}

function labelled(element, label) {
  element.setAttribute("aria-label", label);
  return element;
}

/** @returns {TreeNode} */
function nodeOf(key, value, context) {
  return isBranch(value) ? branchOf(key, value, context) : leafOf(key, value, context);
}

function keyOf(key) {
  return key === null ? null : h("span", { class: "key" }, plain(key), ": ");
}

function leafOf(key, value, context) {
  if (typeof value === "string" && (value.length > SHORT || value.includes("\n"))) {
    const text = textOf(value, { laidOut: false, signal: context.signal });
    return { element: h("li", { class: "leaf long" }, keyOf(key), text) };
  }
  const kind = value === null ? "null" : typeof value;
  return { element: h("li", { class: "leaf" }, keyOf(key), h("span", { class: `v-${kind}` }, plain(value ?? "null"))) };
}

/** Makes the inside of a details element when it is opened. */
function folding(summary, make, open) {
  /** @type {TreeNode | null} */
  let inside = null;
  const element = h("details", {}, summary);
  const fill = () => {
    if (inside) return;
    inside = make();
    element.append(inside.element);
  };
  element.addEventListener("toggle", () => { if (element.open) fill(); });
  const unfold = () => {
    fill();
    element.open = true;
  };
  if (open) unfold();
  return { element: h("li", {}, element), unfold, child: (key) => { unfold(); return inside.child(key); } };
}

function branchOf(key, value, context) {
  const many = sizeOf(value);
  const hint = h("span", { class: "quiet" }, plain(hintOf(value)));
  if (!many) return { element: h("li", { class: "leaf" }, keyOf(key), hint) };
  const below = { ...context, depth: context.depth + 1 };
  if (below.depth > DEEPEST) {
    const text = textOf(JSON.stringify(value), { laidOut: false, signal: context.signal });
    return { element: h("li", { class: "leaf long" }, keyOf(key), text) };
  }
  const summary = h("summary", {}, keyOf(key), hint);
  return folding(summary, () => listOf(value, 0, many, below), context.open.has(value));
}

/** Children from one place to another, or ranges of them. */
function listOf(value, from, to, context) {
  const keys = Array.isArray(value) ? null : Object.keys(value);
  const ranges = rangesOf(from, to);
  const list = h("ul", {});
  if (ranges) {
    const pages = ranges.map(([first, end], at) => {
      const summary = h("summary", {}, h("span", { class: "quiet" }, `${count(first)} – ${count(end - 1)}`));
      return folding(summary, () => listOf(value, first, end, context), at === 0);
    });
    list.append(...pages.map((page) => page.element));
    const child = (key) => {
      const place = keys ? keys.indexOf(key) : key;
      return pages[ranges.findIndex(([first, end]) => place >= first && place < end)]?.child(key) ?? null;
    };
    return { element: list, child };
  }
  const nodes = new Map();
  for (let at = from; at < to; at += 1) {
    const key = keys ? keys[at] : at;
    const node = nodeOf(key, value[key], context);
    nodes.set(key, node);
    list.append(node.element);
  }
  return { element: list, child: (key) => nodes.get(key) ?? null };
}

/**
 * A tree with a field to search in it.
 * @param {any} value
 * @param {{ signal?: AbortSignal, label: string }} options
 */
export function searchedTree(value, { signal, label }) {
  const root = rootOf(structureOf(value) ?? value, { rows: 60, signal, label });
  const said = h("span", { class: "quiet", role: "status" });
  const field = h("input", {
    type: "search",
    placeholder: "Search in keys and values",
    "aria-label": `Search in ${label}`,
    autocomplete: "off",
    spellcheck: "false",
  });
  let hits = [];
  let more = false;
  let at = -1;

  function reveal(by) {
    root.element.querySelector(".hit")?.classList.remove("hit");
    unmark();
    if (!hits.length) return;
    at = (at + by + hits.length) % hits.length;
    /** @type {TreeNode | null} */
    let node = root;
    for (const key of hits[at]) node = node?.child?.(key) ?? null;
    const element = node?.element;
    if (!element || node === root) return;
    /** @type {HTMLElement | null} */ (element.querySelector(":scope > .text > .rest .show-all"))?.click();
    const row = element.querySelector(":scope > details > summary") ?? element;
    row.classList.add("hit");
    row.scrollIntoView({ block: "nearest" });
    // The slices of a long text come with the next frames.
    requestAnimationFrame(() => mark(row, field.value.trim().toLowerCase()));
    said.textContent = `${count(at + 1)} of ${count(hits.length)}${more ? " or more" : ""}`;
  }

  function search() {
    const wanted = field.value.trim();
    ({ hits, more } = wanted ? find(structureOf(value) ?? value, wanted) : { hits: [], more: false });
    at = -1;
    said.textContent = wanted && !hits.length ? "Not found" : "";
    reveal(1);
  }

  field.addEventListener("input", search);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    reveal(event.shiftKey ? -1 : 1);
  });
  return h(
    "div",
    { class: "searched" },
    h(
      "div",
      { class: "search-line" },
      field,
      button("↑", () => reveal(-1), { class: "small", "aria-label": "Previous hit" }),
      button("↓", () => reveal(1), { class: "small", "aria-label": "Next hit" }),
      said,
    ),
    root.element,
  );
}

function unmark() {
  globalThis.CSS?.highlights?.delete("hit");
}

/** Marks the text that was searched for, without changing the document. */
function mark(row, needle) {
  if (!needle || !globalThis.CSS?.highlights) return;
  const texts = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const place = texts.currentNode.textContent.toLowerCase().indexOf(needle);
    if (place < 0) continue;
    const range = new Range();
    range.setStart(texts.currentNode, place);
    range.setEnd(texts.currentNode, Math.min(place + needle.length, texts.currentNode.textContent.length));
    CSS.highlights.set("hit", new Highlight(range));
    range.startContainer.parentElement?.scrollIntoView({ block: "nearest" });
    return;
  }
}
