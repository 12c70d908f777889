// Formats numbers, times and names.

const COUNT = new Intl.NumberFormat("en-US");
const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
export const NONE = "–";

export function count(value) {
  return value == null ? NONE : COUNT.format(value);
}

export function compact(value) {
  if (value == null) return NONE;
  return value < 10_000 ? COUNT.format(Math.round(value)) : COMPACT.format(value);
}

export function duration(ms) {
  if (ms == null) return NONE;
  const sign = ms < 0 ? "−" : "";
  const size = Math.abs(ms);
  if (size === 0) return "0 ms";
  if (size < .005) return `${sign}<0.01 ms`;
  if (size < 10) return `${sign}${size.toFixed(size < 1 ? 2 : 1)} ms`;
  if (size < 999.5) return `${sign}${Math.round(size)} ms`;
  if (size < 59_995) return `${sign}${(size / 1000).toFixed(2)} s`;
  const seconds = Math.round(size / 1000);
  const two = (large, name, small, rest) => `${sign}${large} ${name}${small ? ` ${small} ${rest}` : ""}`;
  if (seconds < 3600) return two(Math.floor(seconds / 60), "m", seconds % 60, "s");
  return two(Math.floor(seconds / 3600), "h", Math.floor(seconds / 60) % 60, "m");
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const LONG_STEPS = [1, 2, 5, 10, 15, 30]
  .map((each) => each * MINUTE)
  .concat([1, 2, 3, 6, 12, 24].map((each) => each * HOUR));

/** A step between marks on a scale of time, at least `least` ms: 1, 2, 5 of a unit, then whole minutes and hours. */
export function roundStep(least) {
  const long = least > 30_000 && LONG_STEPS.find((each) => each >= least);
  if (long) return long;
  if (least > 10_000 && least <= 30_000) return least <= 20_000 ? 20_000 : 30_000;
  const unit = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= least);
}

/** `1 run`, `2 runs`. */
export function several(number, one, more = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : more}`;
}

/** How often something happened, by the unit of time in which that is a number one can grasp. */
export function rate(perMinute) {
  if (perMinute == null) return NONE;
  const [value, unit] =
    perMinute >= 1 || perMinute === 0
      ? [perMinute, "min"]
      : perMinute * 60 >= 1
        ? [perMinute * 60, "h"]
        : [perMinute * 1440, "d"];
  return `${value >= 100 ? compact(value) : Number(value.toFixed(1))} /${unit}`;
}

const KINDS = {
  llm: "model call",
  tool: "tool call",
  retrieval: "search",
  agent: "agent",
  pipeline: "pipeline",
  span: "span of another instrumentation",
};

/** What a step is, in words. */
export function kindName(kind) {
  return KINDS[kind] ?? plain(kind);
}

export function cost(usd) {
  if (usd == null) return NONE;
  const size = Math.abs(usd);
  const sign = usd < 0 ? "−" : "";
  if (size === 0) return "$0";
  return `${sign}$${size >= 1 ? size.toFixed(2) : size >= 0.01 ? size.toFixed(4) : size.toFixed(6)}`;
}

/** What share of a row's tokens is in no cost, as `12 % unpriced`; empty if all have a price. */
export function unpriced(row) {
  if (!row.unpriced_tokens) return "";
  return `${share(Math.min(1, row.unpriced_tokens / Math.max(row.unpriced_tokens, allTokens(row))))} unpriced`;
}

/** What to do about tokens without a price; empty if all have one. */
export function priceRemedy(row) {
  if (!row.unpriced_tokens) return "";
  const names = row.unpriced_models.map((name) => plain(name || "a model without a name"));
  const lacking = `The cost lacks ${several(row.unpriced_tokens, "token")}.`;
  return `No price for ${names.join(", ")}: add one (TRACEREEL_PRICE_FILE). ${lacking}`;
}

function allTokens(row) {
  return row.tokens ?? row.llm_tokens_used ?? 0;
}

export function share(value) {
  if (value == null) return NONE;
  return `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`;
}

export function confidence(value) {
  return value == null ? NONE : value.toFixed(2);
}

export function bytes(size) {
  if (size == null) return NONE;
  if (size < 1024) return `${size} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let unit = -1;
  do { size /= 1024; unit += 1; } while (size >= 1024 && unit < 3);
  return `${size.toFixed(size < 10 ? 1 : 0)} ${units[unit]}`;
}

/** The time of day, with the date where it is not today, and the year where it is another. */
export function clock(iso) {
  if (!iso) return NONE;
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return NONE;
  const time = date.toLocaleTimeString("en-GB", { hour12: false });
  const today = new Date();
  if (date.toDateString() === today.toDateString()) return time;
  /** @type {Intl.DateTimeFormatOptions} */
  const format = { day: "2-digit", month: "short" };
  if (date.getFullYear() !== today.getFullYear()) format.year = "numeric";
  return `${date.toLocaleDateString("en-GB", format)} ${time.slice(0, 5)}`;
}

export function ago(iso, now = Date.now()) {
  if (!iso) return NONE;
  const seconds = Math.round((now - Date.parse(iso)) / 1000);
  if (seconds < 2) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

const COLOURS = 12;
/** The first ones differ most from each other. */
const DISTINCT = COLOURS / 2;
let colours = new Map();

function slotOf(name) {
  let hash = 2166136261;
  for (const character of name) hash = Math.imul(hash ^ character.codePointAt(0), 16777619);
  return ((hash ^ (hash >>> 15)) >>> 0) % DISTINCT;
}

/**
 * Colours of agents that are seen together: each has that of its name or, if another has it, the next free one.
 * They depend on the names alone, so that a run looks the same for everyone.
 */
export function coloursOf(names) {
  const made = new Map();
  const used = new Set();
  for (const name of [...new Set(names)].map(String).sort()) {
    const own = slotOf(name);
    let slot = own;
    for (let at = 0; at < COLOURS && used.has(slot); at++)
      slot = at < DISTINCT ? (own + at) % DISTINCT : DISTINCT + ((own + at) % DISTINCT);
    made.set(name, used.has(slot) ? own : slot);
    used.add(slot);
  }
  return made;
}

/** Sets the agents of the view, which `colourOf` distinguishes; returns whether a colour changed. */
export function useColours(names) {
  const before = colours;
  colours = coloursOf(names);
  return [...before].some(([name, slot]) => colours.get(name) !== slot);
}

/** The colours of the view, if these agents differ in them; else colours of their own. */
export function apart(names) {
  const slots = names.map((name) => colours.get(String(name)));
  return new Set(slots).size === names.length ? colours : coloursOf(names);
}

/** The colour of an agent among those of the view, or among others. */
export function colourOf(name, among = colours) {
  const key = String(name);
  return `var(--agent-${among.get(key) ?? slotOf(key)})`;
}

const SIGNS = {
  success: "✓", partial_success: "◑", failed: "✕", error: "✕", cancelled: "⊘", retried: "↻",
  running: "●", crashed: "✕", unknown: "?",
};

export function signOf(status) {
  return SIGNS[status] ?? "·";
}

/** Control characters made visible, and direction marks harmless. */
export function plain(value) {
  return String(value ?? "").replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    "␣",
  );
}

/** The type of an error; OpenTelemetry's `_OTHER` is one that its sender did not name. */
export function errorName(type) {
  return type === "_OTHER" ? "unnamed error" : plain(type);
}

export function shortId(id) {
  const text = plain(id);
  return text.length > 14 ? `${text.slice(0, 13)}…` : text;
}

/** A value as text to look at: JSON is laid out, text is left as it is. */
export function laidOut(value) {
  if (value == null) return "";
  if (typeof value !== "string") return plain(JSON.stringify(value, null, 2));
  const text = value.trim();
  if (/^[[{]/.test(text) && text.length < 200_000) {
    try { return plain(JSON.stringify(JSON.parse(text), null, 2)); } catch { /* it only looks like JSON */ }
  }
  return plain(value);
}
