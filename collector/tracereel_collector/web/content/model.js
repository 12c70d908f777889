// The content of a step as the page reads it: what belongs together, what is new, what was cut. No elements here.

import { count, several } from "../shell/words.js";

/**
 * @typedef {{ length: number, removed: number, at?: number }} Cut
 * @typedef {{
 *   type: string, text?: string, id?: string, name?: string, value?: any, is_error?: boolean, media_type?: string,
 *   data?: string, uri?: string, size?: number, cut?: Cut,
 * }} Part
 * @typedef {{ role: string, parts?: Part[], name?: string, id?: string, finish_reason?: string }} Message
 * @typedef {{ name: string, description?: string, parameters?: any, type?: string }} ToolDefinition
 * @typedef {{
 *   kind: string, input?: any, output?: any, earlier?: number, earlier_step?: string, tools?: ToolDefinition[],
 *   parameters?: Record<string, any>, model?: string, provider?: string, finish_reason?: string,
 *   usage?: Record<string, number>, first_token_ms?: number, tokens_per_second?: number, cut?: Cut,
 *   name?: string, id?: string, arguments?: any, result?: any, asked?: string, answered?: string, raw?: any,
 *   input_messages?: Message[], output_messages?: Message[],
 *   omitted?: boolean,
 * }} Content
 * @typedef {{ part: Part, result?: Part, call?: Part }} Piece `result` of a tool call; `call` of a result elsewhere
 * @typedef {{ message: Message, pieces: Piece[], after?: Cut }} Turn `after`: messages that were removed before it
 */

/** Types of images that a browser draws without running anything. */
const RASTER = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;
const REMOVED = /…\[(\d{1,15}) (characters|bytes) removed\]…/;

/**
 * Messages of a model call in two parts, earlier and new; each tool call with its result, if both are in one part.
 * @param {Content} content
 * @returns {{ earlier: Turn[], fresh: Turn[], output: Turn[] }}
 */
export function turnsOf(content) {
  const input = /** @type {Message[]} */ (content.input ?? []);
  const output = /** @type {Message[]} */ (content.output ?? []);
  const many = Math.min(content.earlier ?? 0, input.length);
  const all = [...input, ...output];
  const pairs = pairsOf(all);
  const section = (from, to) => all.slice(from, to).map((message, at) => turnOf(message, from + at)).filter(Boolean);
  const sectionOf = new Map();
  all.forEach((message, at) => {
    const name = at < many ? "earlier" : at < input.length ? "fresh" : "output";
    for (const part of message.parts ?? []) sectionOf.set(part, name);
  });

  function turnOf(message, at) {
    const parts = message.parts ?? [];
    const pieces = parts.flatMap((part) => {
      const other = pairs.get(part);
      if (!other) return [{ part }];
      if (sectionOf.get(other) === sectionOf.get(part))
        return part.type === "tool_call" ? [{ part, result: other }] : [];
      return part.type === "tool_call" ? [{ part }] : [{ part, call: other }];
    });
    // A message of nothing but results that stand with their calls.
    if (!pieces.length && parts.length) return null;
    return content.cut?.at && content.cut.at === at ? { message, pieces, after: content.cut } : { message, pieces };
  }

  return { earlier: section(0, many), fresh: section(many, input.length), output: section(input.length, all.length) };
}

/**
 * Partner of every tool call and tool result: by id, else by name, in the order of the latest message with such calls.
 * @param {Message[]} messages
 * @returns {Map<Part, Part>}
 */
export function pairsOf(messages) {
  const pairs = new Map();
  /** @type {Map<string, { message: Message, calls: Part[] }>} */
  const waiting = new Map();
  const keyOf = (part) => (part.id ? `id ${part.id}` : `name ${part.name ?? ""}`);
  for (const message of messages) {
    for (const part of message.parts ?? []) {
      if (part.type === "tool_call") {
        const known = waiting.get(keyOf(part));
        if (known?.message === message) known.calls.push(part);
        else waiting.set(keyOf(part), { message, calls: [part] });
      } else if (part.type === "tool_result") {
        const call = waiting.get(keyOf(part))?.calls.shift();
        if (!call) continue;
        pairs.set(call, part);
        pairs.set(part, call);
      }
    }
  }
  return pairs;
}

/**
 * Whole text of a message, to be copied.
 * @param {Message} message
 */
export function textOf(message) {
  return (message.parts ?? []).map(partText).filter(Boolean).join("\n\n");
}

/** @param {Part} part */
export function partText(part) {
  if (part.type === "tool_call") return `${part.name ?? "tool"}(${valueText(part.value ?? part.text)})`;
  if (part.value != null) return valueText(part.value);
  return part.text ?? (part.data || part.uri ? fileLine(part) : "");
}

/** A value as text: text as it is, anything else as JSON. */
export function valueText(value) {
  return value == null ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/**
 * A text that is JSON is read as the object or list that it is.
 * @param {any} value
 */
export function structureOf(value) {
  if (value && typeof value === "object") return value;
  if (typeof value !== "string" || value.length > 1_000_000) return null;
  const text = value.trim();
  if (!(text.startsWith("{") && text.endsWith("}")) && !(text.startsWith("[") && text.endsWith("]"))) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null; // it only looks like JSON
  }
}

/**
 * A text in pieces around the places where a part of it was removed.
 * @param {string} text
 * @param {Cut} [cut]
 * @returns {(string | { removed: string })[]}
 */
export function aroundCuts(text, cut) {
  /** @type {(string | { removed: string })[]} */
  const pieces = [];
  let rest = text;
  for (let many = 0; cut && many < 50; many += 1) {
    const found = REMOVED.exec(rest);
    if (!found) break;
    pieces.push(rest.slice(0, found.index), { removed: `… ${count(Number(found[1]))} ${found[2]} removed` });
    rest = rest.slice(found.index + found[0].length);
  }
  pieces.push(rest);
  if (cut && pieces.length === 1) pieces.push({ removed: cutWords(cut, "character") });
  return pieces.filter((each) => each !== "");
}

/**
 * What is missing, in words.
 * @param {Cut} cut
 * @param {string} unit
 */
export function cutWords({ length, removed }, unit) {
  return `… ${several(removed, unit)} removed, of ${count(length)}`;
}

/**
 * Bytes of a file that was sent inline, or as far as they are known.
 * @param {Part} part
 */
export function sizeOf(part) {
  if (part.size != null) return part.size;
  if (!part.data) return null;
  const padding = part.data.endsWith("==") ? 2 : part.data.endsWith("=") ? 1 : 0;
  return Math.max(0, Math.floor((part.data.length * 3) / 4) - padding);
}

/**
 * Address of an inline image that can be shown: base64 of a raster image, and nothing else.
 * @param {Part} part
 * @returns {string | null}
 */
export function imageAddress({ type, media_type: media, data, cut }) {
  const kind = String(media ?? "").toLowerCase();
  if (type !== "image" || cut || typeof data !== "string" || !RASTER.has(kind) || !BASE64.test(data)) return null;
  return `data:${kind};base64,${data.replaceAll("-", "+").replaceAll("_", "/")}`;
}

const FILES = { image: "Image", audio: "Audio", video: "Video", file: "File", citation: "Source" };

/**
 * A file in one line: what it is, its name, type and size.
 * @param {Part} part
 */
export function fileLine(part) {
  const size = sizeOf(part);
  const about = [part.name, part.media_type, size != null && `${count(size)} bytes`, part.uri].filter(Boolean);
  return [FILES[part.type] ?? part.type, ...about].join(" · ");
}

/** Question and answer of a step, whatever it is. @param {Content} content */
export function askedAndAnswered(content) {
  if (content.kind === "model") {
    const asked = (content.input ?? []).findLast(({ role }) => role === "user");
    const answer = (content.output ?? []).at(-1);
    return { asked: asked && textOf(asked), answered: answer && textOf(answer) };
  }
  if (content.kind === "tool") return { asked: content.arguments, answered: content.result };
  return { asked: content.asked ?? content.input, answered: content.answered ?? content.output };
}

/**
 * The conversation in the state of an agent or graph: what went in, then what came out and is new.
 * @param {Content} content
 * @returns {Message[]}
 */
export function messagesOfState({ input_messages: given = [], output_messages: made = [] }) {
  const isSame = (one, other) => one.role === other?.role && textOf(one) === textOf(other);
  return given.every((message, at) => isSame(message, made[at])) ? made : [...given, ...made];
}

/** Whether there is nothing to show. @param {Content} content */
export function isEmpty(content) {
  const { kind, input, output, arguments: given, result, tools, asked, answered } = content;
  if (kind === "model") return !input?.length && !output?.length && !tools?.length;
  return [input, output, given, result, asked, answered].every((each) => each == null || each === "");
}

/**
 * How many messages of each role a list has: `12 earlier messages`.
 * @param {Content} content
 */
export function earlierWords(content) {
  const many = Math.min(content.earlier ?? 0, content.input?.length ?? 0);
  return `${several(many, "earlier message")}, as in the previous call`;
}
