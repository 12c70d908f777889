// One message of a conversation: its role, and its parts as what they are.

import { copyButton, h } from "../shell/elements.js";
import { bytes, count, plain, several } from "../shell/words.js";
import { valueOf } from "./block.js";
import { cutWords, fileLine, imageAddress, sizeOf, structureOf, textOf as wholeText, valueText } from "./model.js";
import { textOf } from "./text.js";
import { treeOf } from "./tree.js";

const ROLES = { system: "System", developer: "Developer", user: "User", assistant: "Assistant", tool: "Tool" };
/** Instructions are read once, not with every call. */
const FOLDED = new Set(["system", "developer"]);

/** @typedef {{ signal?: AbortSignal }} Options */

/**
 * @param {import("./model.js").Turn} turn
 * @param {Options} options
 */
export function messageOf({ message, pieces }, options) {
  const { role, name, finish_reason: reason } = message;
  const title = ROLES[role] ?? plain(role || "message");
  const kind = role in ROLES ? role : "other";
  const body = () =>
    pieces.length ? pieces.map((piece) => pieceOf(piece, options)) : h("p", { class: "quiet" }, "Empty");
  const about = [
    name && h("span", { class: "quiet" }, plain(name)),
    reason && h("span", { class: "quiet", title: "Finish reason" }, plain(reason)),
  ];
  const copy = copyButton(() => wholeText(message), "Copy", `${title} message`);
  if (!FOLDED.has(role)) {
    return h("article", { class: `message r-${kind}` }, h("header", {}, h("h4", {}, title), about, copy), body());
  }
  const text = wholeText(message);
  const made = h(
    "details",
    {},
    h("summary", {}, h("h4", {}, title), about, h("span", { class: "quiet preview" }, plain(text.slice(0, 120)))),
  );
  made.addEventListener("toggle", () => made.append(h("div", {}, body())), { once: true });
  return h("article", { class: `message folded r-${kind}` }, made, copy);
}

/**
 * @param {import("./model.js").Piece} piece
 * @param {Options} options
 */
function pieceOf(piece, options) {
  const { part } = piece;
  switch (part.type) {
    case "text":
      return textPart(part, options);
    case "thinking":
      return thinkingPart(part, options);
    case "tool_call":
      return callPart(part, piece.result, options);
    case "tool_result":
      return resultPart(part, piece.call, options);
    case "refusal":
      return h("div", { class: "notice warn" }, h("div", {}, h("b", {}, "Refused. "), plain(part.text ?? "")));
    case "image":
    case "audio":
    case "video":
    case "file":
    case "citation":
      return filePart(part, options);
    default:
      return part.value != null ? treeOf(part.value, options) : textPart(part, options);
  }
}

/**
 * @param {import("./model.js").Part} part
 * @param {Options} options
 */
function textPart({ text = "", cut }, { signal }) {
  const structure = cut ? null : structureOf(text);
  return structure ? treeOf(structure, { signal, label: "Text, which is JSON" }) : textOf(text, { cut, signal });
}

function thinkingPart(part, options) {
  const { text = "" } = part;
  if (!text) return h("p", { class: "quiet" }, "Thinking that the provider keeps to itself");
  const made = h(
    "details",
    { class: "thinking" },
    h("summary", {}, "Thinking ", h("span", { class: "quiet" }, several(text.length, "character"))),
  );
  made.addEventListener("toggle", () => made.append(textOf(text, { cut: part.cut, ...options })), { once: true });
  return made;
}

function callPart(call, result, options) {
  return h(
    "div",
    {
      class: `call${result?.is_error ? " failed" : ""}`,
      role: "group",
      "aria-label": `Tool call ${plain(call.name ?? "")}`,
    },
    callHead(call, "Tool call"),
    argumentsOf(call, options),
    result && resultOf(result, options),
  );
}

/** A result whose call is among the earlier messages: a short form of the call is repeated. */
function resultPart(result, call, options) {
  return h(
    "div",
    {
      class: `call${result.is_error ? " failed" : ""}`,
      role: "group",
      "aria-label": `Tool result ${plain(result.name ?? call?.name ?? "")}`,
    },
    callHead({ ...call, ...result, name: result.name ?? call?.name }, "Tool result"),
    call && argumentsOf(call, options),
    resultOf(result, options),
  );
}

function callHead({ name, id }, what) {
  return h(
    "div",
    { class: "call-head" },
    h("span", { "aria-hidden": "true" }, "⚙"),
    h("b", {}, plain(name ?? "tool")),
    h("span", { class: "hidden-visually" }, what),
    id && h("code", { class: "quiet" }, plain(id)),
  );
}

function argumentsOf({ value, text, cut }, options) {
  const given = value ?? text;
  const empty = given == null || given === "" || (typeof given === "object" && !Object.keys(given).length);
  if (empty) return h("p", { class: "quiet" }, "No arguments");
  return [valueOf(given, { rows: 12, label: "Arguments", ...options }), cutMark(cut)];
}

function resultOf(result, options) {
  const value = result.value ?? result.text;
  return h(
    "div",
    { class: "result" },
    h(
      "div",
      { class: "result-head" },
      h("span", { class: result.is_error ? "bad" : "quiet" }, result.is_error ? "Failed" : "Result"),
      value != null && copyButton(() => valueText(value), "Copy", "result"),
    ),
    value == null
      ? h("p", { class: "quiet" }, "Nothing")
      : typeof value === "string" && !structureOf(value)
        ? textOf(value, { laidOut: false, cut: result.cut, ...options })
        : [valueOf(value, { rows: 12, label: "Result", ...options }), cutMark(result.cut)],
  );
}

function cutMark(cut) {
  return cut && h("p", { class: "cut-mark", role: "note" }, cutWords(cut, "character"));
}

/**
 * @param {import("./model.js").Part} part
 * @param {Options} options
 */
function filePart(part, { signal }) {
  const address = imageAddress(part);
  const line = () => {
    const size = sizeOf(part);
    const about = { ...part, size: undefined, data: undefined };
    return h("p", { class: "file" }, plain(fileLine(about)), size != null && ` · ${bytes(size)}`, cutMark(part.cut));
  };
  const caption = part.text && textOf(part.text, { signal });
  if (!address) return [line(), caption];
  const image = h("img", {
    src: address,
    alt: plain(part.name ?? part.text ?? "Image of the message"),
    loading: "lazy",
    decoding: "async",
    title: `${part.media_type} · ${count(sizeOf(part))} bytes`,
  });
  const shown = h("p", { class: "picture" }, image);
  image.addEventListener("error", () => shown.replaceWith(line()));
  return [shown, caption];
}
