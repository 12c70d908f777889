// Small pieces that several views show: a status, an agent's name, facts, notices, windows of time.

import { button, h } from "./elements.js";
import { colourOf, plain, signOf } from "./words.js";

const KNOWN = new Set(["success", "failed", "error", "crashed", "partial_success", "retried", "running", "cancelled", "unknown"]);

export function badge(status) {
  const kind = KNOWN.has(status) ? status : "none";
  return h("span", { class: `badge s-${kind}` }, h("i", { "aria-hidden": "true" }, signOf(status)), plain(status ?? "–").replaceAll("_", " "));
}

export function agentName(name) {
  return h("span", { class: "agent" }, h("span", { class: "dot", vars: { "--agent": colourOf(name) } }), plain(name));
}

/** `[[label, value, hint], …]` as a row of figures. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([label, value, hint, kind]) =>
    h("div", { title: hint }, h("dt", {}, label), h("dd", { class: kind }, value))));
}

/** A table that may be wider than the screen: scrolled by itself, also with the keyboard. */
export function scrolled(label, table) {
  return h("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": label }, table);
}

export function notice(kind, ...children) {
  return h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "note" }, children);
}

/** Buttons of which one is pressed. */
export function choice(label, options, chosen, choose) {
  return h("div", { class: "segments", role: "group", "aria-label": label }, options.map(([value, text]) =>
    button(text, () => choose(value), { "aria-pressed": String(value === chosen) })));
}
