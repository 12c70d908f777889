// Markdown as a tree of few known elements: from the tokens of marked's lexer, without HTML. No elements here.

/**
 * @typedef {string | [string, Record<string, string> | null, ...any[]]} Node a text, or name, properties and children
 */

const DEEPEST = 24;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: "\"", "#39": "'", apos: "'", nbsp: "\u00a0" };
const ENTITY = /&(amp|lt|gt|quot|#39|apos|nbsp);/g;

/** Elements that a tree may have. */
export const ELEMENTS = new Set([
  "p", "h", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "block", "code", "em",
  "strong", "del", "br", "hr", "a", "address",
]);

/** @returns {Node[]} */
export function nodesOf(tokens, depth = 0) {
  if (!tokens?.length) return [];
  // What is nested deeper than any text that is meant for reading stays as it was written.
  if (depth > DEEPEST) return tokens.map((token) => String(token.raw ?? token.text ?? ""));
  return tokens.flatMap((token) => nodeOf(token, depth + 1));
}

function nodeOf(token, depth) {
  const inside = () => (token.tokens ? nodesOf(token.tokens, depth) : [words(token.text)]);
  switch (token.type) {
    case "space":
    case "def":
      return token.type === "def" ? [["p", null, token.raw.trimEnd()]] : [];
    case "heading":
      return [["h", { level: String(token.depth) }, ...inside()]];
    case "paragraph":
      return [["p", null, ...inside()]];
    case "code":
      return [["block", { language: (token.lang ?? "").split(" ", 1)[0].slice(0, 40) }, token.text]];
    case "blockquote":
      return [["blockquote", null, ...nodesOf(token.tokens, depth)]];
    case "list":
      return [[token.ordered ? "ol" : "ul", start(token), ...token.items.map((item) => itemOf(item, depth))]];
    case "table":
      return [tableOf(token, depth)];
    case "hr":
      return [["hr", null]];
    case "br":
      return [["br", null]];
    case "strong":
    case "em":
    case "del":
      return [[token.type, null, ...inside()]];
    case "codespan":
      return [["code", null, token.text]];
    case "checkbox":
      return [token.checked ? "☑ " : "☐ "];
    case "link":
      return linkOf(token, inside());
    case "image":
      return [`${token.text || "image"} `, ["address", null, token.href]];
    case "escape":
      return [token.text];
    case "text":
      return token.tokens ? inside() : [words(token.text)];
    default: // HTML above all
      return [depth === 1 ? ["p", null, (token.raw ?? "").trimEnd()] : String(token.raw ?? token.text ?? "")];
  }
}

function start({ ordered, start: from }) {
  return ordered && Number.isInteger(from) && from !== 1 ? { start: String(from) } : null;
}

function itemOf(item, depth) {
  // Lexers before version 17 have no token for the box of a task.
  const boxed = item.task && !item.tokens?.some((token) => hasBox(token));
  return ["li", null, ...(boxed ? [item.checked ? "☑ " : "☐ "] : []), ...nodesOf(item.tokens, depth)];
}

function hasBox(token) {
  return token.type === "checkbox" || (token.tokens ?? []).some((each) => each.type === "checkbox");
}

function tableOf({ header, rows, align }, depth) {
  const cells = (name, row) =>
    row.map((cell, at) => [name, align?.[at] ? { align: align[at] } : null, ...nodesOf(cell.tokens, depth)]);
  return [
    "table",
    null,
    ["thead", null, ["tr", null, ...cells("th", header)]],
    ["tbody", null, ...rows.map((row) => ["tr", null, ...cells("td", row)])],
  ];
}

/** A link shows where it leads; only addresses of the web can be followed. */
function linkOf({ href, text, raw }, inside) {
  const known = webAddress(href);
  const shown = text === href || raw === href || `mailto:${text}` === href;
  if (!known) return shown ? [words(text)] : [...inside, " ", ["address", null, href]];
  const made = [["a", { href: known }, ...inside]];
  return shown ? made : [...made, " ", ["address", null, href]];
}

/**
 * The address if it is one of the web, else null.
 * @param {string} text
 */
export function webAddress(text) {
  let address;
  try {
    address = new URL(text);
  } catch {
    return null;
  }
  return ["http:", "https:"].includes(address.protocol) && !address.username ? address.href : null;
}

function words(text) {
  return String(text ?? "").replace(ENTITY, (_, name) => ENTITIES[name]);
}

/** How many elements a tree has. @param {Node[]} nodes */
export function sizeOf(nodes) {
  let many = 0;
  const waiting = [...nodes];
  while (waiting.length) {
    const node = waiting.pop();
    if (typeof node === "string") continue;
    many += 1;
    for (let at = 2; at < node.length; at += 1) waiting.push(node[at]);
  }
  return many;
}
