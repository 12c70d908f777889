// Elements that several views use: status, agent name, facts, notices, choices.

import { button, h } from "./elements.js";
import { colourOf, cost, plain, priceRemedy, signOf, unpriced } from "./words.js";

const KNOWN = new Set([
  "success",
  "failed",
  "error",
  "crashed",
  "partial_success",
  "retried",
  "running",
  "cancelled",
  "unknown",
]);

export function badge(status) {
  const kind = KNOWN.has(status) ? status : "none";
  return h(
    "span",
    { class: `badge s-${kind}` },
    h("i", { "aria-hidden": "true" }, signOf(status)),
    plain(status ?? "–").replaceAll("_", " "),
  );
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

function sameAs(element) {
  const said = (each) => each.getAttribute("aria-label") ?? each.textContent;
  return (each) => each.tagName === element.tagName && said(each) === said(element);
}

/** Replaces the content of an element and keeps focus, unfolded details and horizontal scrolling. */
export function replace(place, ...made) {
  const scrolledTo = new Map(
    [...place.querySelectorAll(".scroll-x")].map((each) => [each.getAttribute("aria-label"), each.scrollLeft]),
  );
  const focused =
    place.contains(document.activeElement) && place !== document.activeElement ? document.activeElement : null;
  const nth = focused && [...place.querySelectorAll(focused.tagName)].filter(sameAs(focused)).indexOf(focused);
  const unfolded = new Map(
    [...place.querySelectorAll("details")].map((each) => [each.firstChild.textContent, each.open]),
  );
  place.replaceChildren(...made);
  for (const each of place.querySelectorAll("details"))
    each.open = unfolded.get(each.firstChild.textContent) ?? each.open;
  for (const each of place.querySelectorAll(".scroll-x"))
    each.scrollLeft = scrolledTo.get(each.getAttribute("aria-label")) ?? 0;
  if (focused)
    [...place.querySelectorAll(focused.tagName)].filter(sameAs(focused))[nth]?.focus({ preventScroll: true });
}

export function notice(kind, ...children) {
  return h("div", { class: `notice ${kind}`, role: "note" }, children);
}

/** Buttons of which one is pressed. */
export function choice(label, options, chosen, choose) {
  return h("div", { class: "segments", role: "group", "aria-label": label }, options.map(([value, text]) =>
    button(text, () => choose(value), { "aria-pressed": String(value === chosen) })));
}

/** Cost of a row with the share that has no price beside it, and the remedy as its title. */
export function costWithUnpriced(row, usd = row.cost_usd) {
  const lacking = unpriced(row);
  return [cost(usd), lacking && h("span", { class: "unpriced", title: priceRemedy(row) }, ` ${lacking}`)];
}
