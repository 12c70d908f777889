// Texts: Markdown as elements, long ones in part with a way to all of it, and what was cut.

import { button, copyButton, h } from "../shell/elements.js";
import { count, plain } from "../shell/words.js";
import { inChunks } from "./chunks.js";
import { markdown } from "./lexer.js";
import { ELEMENTS } from "./markdown.js";
import { aroundCuts } from "./model.js";
import { beginning, slicesOf } from "./slices.js";

/** Characters of a text that are shown before all of it is asked for. */
export const LONG = 6_000;

/**
 * A text to be read; `laidOut` as Markdown.
 * @param {string} text
 * @param {{ cut?: import("./model.js").Cut, laidOut?: boolean, signal?: AbortSignal }} [options]
 */
export function textOf(text, { cut, laidOut = true, signal } = {}) {
  const place = h("div", { class: "text" });
  const draw = (shown) =>
    aroundCuts(shown, cut).map((piece) =>
      typeof piece === "string"
        ? laidOut ? readable(piece, signal) : asWritten(piece, signal)
        : h("p", { class: "cut-mark", role: "note" }, piece.removed),
    );
  const part = beginning(text, LONG);
  if (part.length === text.length) {
    place.append(...draw(text));
    return place;
  }
  place.append(...draw(part));
  const all = () => place.replaceChildren(...draw(text));
  place.append(
    h(
      "p",
      { class: "rest" },
      h("span", { class: "quiet" }, `The first ${count(part.length)} are shown. `),
      button(`Show all ${count(text.length)} characters`, all, { class: "small show-all" }),
    ),
  );
  return place;
}

/** A text as it was written; a long one in slices, of which the browser lays out only those in view. */
function asWritten(text, signal) {
  const place = h("pre", { class: "written" });
  const slices = slicesOf(plain(text));
  if (slices.length === 1) place.append(slices[0]);
  else inChunks(slices, (slice) => place.append(h("span", { class: "slice" }, slice)), signal);
  return place;
}

/** A Markdown text; as it was written until its elements are known. */
function readable(text, signal) {
  const place = h("div", { class: "md" });
  const draw = (nodes) => {
    place.classList.remove("coming");
    place.replaceChildren();
    if (nodes === null) place.append(asWritten(text, signal));
    else inChunks(nodes, (node) => place.append(built(node)), signal);
  };
  const nodes = markdown(text, signal);
  if (nodes instanceof Promise) {
    place.classList.add("coming");
    place.append(plain(text));
    nodes.then((known) => { if (!signal?.aborted) draw(known); });
  } else draw(nodes);
  return place;
}

/** @param {import("./markdown.js").Node} node */
function built(node) {
  if (typeof node === "string") return document.createTextNode(plain(node));
  const [name, properties, ...children] = node;
  if (!ELEMENTS.has(name)) return document.createTextNode("");
  const inside = () => children.map(built);
  switch (name) {
    case "h":
      return h("h5", { class: `h-${Number(properties.level) || 1}` }, inside());
    case "block":
      return codeBlock(String(children[0] ?? ""), properties.language);
    case "a":
      return h("a", { href: properties.href, rel: "noopener noreferrer", target: "_blank" }, inside());
    case "address":
      return h("span", { class: "address quiet" }, `(${plain(children[0])})`);
    case "table":
      // Not a region: a conversation has many tables.
      return h(
        "div",
        { class: "scroll-x", tabindex: "0", role: "group", "aria-label": "Table" },
        h("table", {}, inside()),
      );
    case "th":
    case "td":
      return h(name, { class: properties?.align && `to-${properties.align}`, scope: name === "th" && "col" }, inside());
    case "ol":
      return h("ol", { start: properties?.start }, inside());
    default:
      return h(name, {}, inside());
  }
}

function codeBlock(code, language) {
  const what = language ? `${language} code` : "code";
  return h(
    "div",
    { class: "code-block" },
    h(
      "div",
      { class: "code-head" },
      h("span", { class: "quiet" }, plain(language) || "code"),
      copyButton(code, "Copy", what),
    ),
    h("pre", {}, h("code", {}, plain(code))),
  );
}
