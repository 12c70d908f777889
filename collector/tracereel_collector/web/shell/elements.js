// Creates elements. Text is only ever put into text nodes, so recorded data never becomes markup.

import { plain } from "./words.js";

const SVG = document.querySelector("svg").namespaceURI;

function filled(made, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value == null || value === false) continue;
    if (name === "on") {
      for (const [type, listener] of Object.entries(value)) made.addEventListener(type, listener);
    } else if (name === "vars") {
      for (const [variable, given] of Object.entries(value)) made.style.setProperty(variable, given);
    } else if (name === "class") made.setAttribute("class", value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  append(made, children);
  return made;
}

function append(made, children) {
  for (const child of children) {
    if (child == null || child === false || child === "") continue;
    if (Array.isArray(child)) append(made, child);
    else made.append(child instanceof Node ? child : String(child));
  }
}

/** An element with attributes, listeners (`on`) and custom properties (`vars`). */
export function h(name, properties, ...children) {
  return filled(document.createElement(name), properties, children);
}

/** The same for drawings. */
export function svg(name, properties, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

/** A link inside the page or to the collector; addresses that were recorded are never links. */
export function link(href, text, properties) {
  if (!/^(#\/|\/(?!\/))/.test(href)) throw new TypeError(`not an address of the page: ${href.slice(0, 40)}`);
  return h("a", { href, ...properties }, text);
}

/** A button that does something. */
export function button(text, act, properties) {
  return h("button", { type: "button", ...properties, on: { click: act } }, text);
}

/** A button that copies a text, or the result of a function. */
export function copyButton(text, label = "Copy", what = null) {
  return button(label, async () => {
    const copied = typeof text === "function" ? text() : text;
    try {
      // What is pasted is what was seen: no control characters that a terminal obeys.
      await navigator.clipboard.writeText(plain(copied.replaceAll("\r\n", "\n")));
      toast("Copied");
    } catch {
      toast("The browser does not let the page copy");
    }
  }, { class: "small", "aria-label": what && `${label} ${what}` });
}

let quiet;

/** Shows a message for a moment, also to screen readers. */
export function toast(text) {
  const place = document.getElementById("toast");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(quiet);
  quiet = setTimeout(() => place.classList.remove("shown"), 2200);
}

const HEARD_MS = 100;
const ECHOES = [1200, 3000, 8000, 20_000];

/**
 * At most one call at a time and one per `rest` milliseconds; calls in between become one more.
 * `noted()` is for live events: they arrive before they are stored, so the call is repeated later.
 */
export function paced(act, rest) {
  let busy = false, wanted = false, stopped = false, timer, heard;
  let echoes = [];
  async function run() {
    if (stopped) return;
    if (busy) { wanted = true; return; }
    busy = true;
    try { await act(); } finally {
      timer = setTimeout(() => {
        busy = false;
        if (wanted) { wanted = false; run(); }
      }, rest);
    }
  }
  run.noted = () => {
    if (heard) return; // at most ten a second
    heard = setTimeout(() => { heard = null; }, HEARD_MS);
    echoes.forEach(clearTimeout);
    echoes = ECHOES.map((later) => setTimeout(run, later + HEARD_MS));
    run();
  };
  run.stop = () => {
    stopped = true;
    clearTimeout(timer);
    clearTimeout(heard);
    echoes.forEach(clearTimeout);
  };
  return run;
}
