// Reads Markdown beside the page: a text that takes very long to read delays no one, and can be given up.

import { Lexer } from "../vendor/marked.esm.js";
import { nodesOf, sizeOf } from "./markdown.js";

/** A text of more elements than this is shown as it was written. */
const MOST = 20_000;

self.addEventListener("message", ({ data: { number, text } }) => {
  let nodes = null;
  try {
    nodes = nodesOf(new Lexer({ gfm: true }).lex(text));
    if (sizeOf(nodes) > MOST) nodes = null;
  } catch {
    // Too deep for the lexer.
  }
  self.postMessage({ number, nodes });
});
