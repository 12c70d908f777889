// Sections with a title that fold, and a button that copies all of what they show.

import { copyButton, h } from "../shell/elements.js";
import { plain } from "../shell/words.js";
import { structureOf, valueText } from "./model.js";
import { textOf } from "./text.js";
import { treeOf } from "./tree.js";

/**
 * A section that folds. The copy button is beside the title, because a summary cannot contain a button.
 * @param {string} title
 * @param {any} inside an element, or a function that makes it when the section is unfolded
 * @param {{ open?: boolean, copied?: string | (() => string), hint?: string, kind?: string }} [options]
 */
export function folding(title, inside, { open = true, copied, hint, kind = "" } = {}) {
  const summary = h("summary", {}, h("h3", {}, title), hint && h("span", { class: "quiet hint" }, hint));
  const made = h("details", { open }, summary);
  const fill = () => {
    if (made.childNodes.length === 1) made.append(typeof inside === "function" ? inside() : inside);
  };
  if (open) fill();
  else made.addEventListener("toggle", fill, { once: true });
  return h("div", { class: `block ${kind}` }, made, copied != null && copyButton(copied, "Copy", title));
}

/** Whether there is nothing to show of a value. */
export function isNothing(value) {
  return value == null || value === "" || (Array.isArray(value) && !value.length);
}

/**
 * A value: a text as text, an object or list as a tree.
 * @param {any} value
 * @param {{ laidOut?: boolean, rows?: number, signal?: AbortSignal, label?: string }} [options]
 */
export function valueOf(value, { laidOut = false, rows, signal, label } = {}) {
  const structure = structureOf(value);
  if (structure) return treeOf(structure, { rows, signal, label });
  return typeof value === "string" ? textOf(value, { laidOut, signal }) : treeOf(value, { signal, label });
}

/**
 * A value under its title; nothing if there is none.
 * @param {string} title
 * @param {any} value
 * @param {{ open?: boolean, laidOut?: boolean, rows?: number, signal?: AbortSignal }} [options]
 */
export function block(title, value, { open = true, ...options } = {}) {
  if (isNothing(value)) return null;
  const shown = () => valueOf(value, { ...options, label: title });
  return folding(plain(title), shown, { open, copied: () => valueText(value) });
}
