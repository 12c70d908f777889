// The language of the search box: words, `name:value`, `name:>number`. Pure: no document, no requests.

/** Filters by name; `of` is the parameter of the collector. Those with `facet` have values that it can count. */
export const NAMES = {
  user: { of: "user", facet: true, what: "user id" },
  session: { of: "session", facet: true, what: "session id" },
  agent: { of: "agent", facet: true, what: "name of an agent" },
  model: { of: "model", facet: true, what: "name of a model" },
  status: { of: "status", facet: true, what: "how the run ended" },
  cost: { range: "cost_usd", unit: "usd", what: "in dollars, as cost:>0.1" },
  duration: { range: "duration_ms", unit: "time", what: "as duration:>2s" },
  tokens: { range: "tokens", unit: "count", what: "as tokens:>10k" },
  errors: { range: "errors", unit: "count", least: true, what: "at least so many, as errors:>1" },
  retries: { range: "retries", unit: "count", least: true, what: "at least so many" },
  fallbacks: { range: "fallbacks", unit: "count", least: true, what: "at least so many" },
  confidence: { range: "confidence", unit: "share", what: "the lowest in the run, as confidence:<0.5" },
  score: { of: "score", range: "score", unit: "number", scores: true, what: "name, or a value as score:<0.5" },
  score_category: { of: "score_category", what: "value of a score that is no number" },
  pipeline: { of: "pipeline", facet: true, what: "name of a pipeline" },
  provider: { of: "provider", facet: true, what: "provider of a model" },
  service: { of: "service", facet: true, what: "name of a service" },
  error: { of: "error", facet: true, what: "type of an error" },
  category: { of: "category", facet: true, what: "category of an error" },
  code: { of: "code", facet: true, what: "code of an error" },
  attribute: { of: "attribute", what: "field of an event or attribute of a span, as attribute:key=value" },
  decision: { of: "decision_type", what: "type of a decision" },
  decision_category: { of: "decision_category", what: "category of a decision" },
  decision_agent: { of: "decision_agent", what: "agent that decided" },
  chosen: { of: "decision_chosen", what: "value that was chosen" },
  decision_confidence: { range: "decision_confidence", unit: "share", what: "as decision_confidence:<0.5" },
  below_threshold: { of: "below_threshold", values: ["true"], what: "true: a decision below its threshold" },
};
export const STATUSES = ["success", "partial_success", "failed", "cancelled", "running", "crashed", "unknown"];

const TOKEN = /([a-z_]{2,20}):((?:[<>]=?)?(?:"[^"]*"|[^\s"]*))|"[^"]*"?|[^\s"]+/g;
const BOUND = /^([<>])=?([0-9.]{1,20})([a-z$%]{0,3})$/i;
const UNITS = {
  time: { "": 1, ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000 },
  count: { "": 1, k: 1000, m: 1_000_000 },
  usd: { "": 1, $: 1, usd: 1 },
  share: { "": 1, "%": .01 },
  number: { "": 1 },
};

/** The parameter and value of `>2s` for a filter, or null if it is none. */
function boundOf({ range, unit, least }, text) {
  const [, sign, number, suffix] = BOUND.exec(text) ?? [];
  const factor = UNITS[unit]?.[(suffix ?? "").toLowerCase()];
  const value = Number(number) * factor;
  if (!range || !Number.isFinite(value) || (least && sign === "<")) return null;
  return [`${sign === ">" ? "min" : "max"}_${range}`, String(Number(value.toPrecision(12)))];
}

/**
 * Reads a text of the search box.
 * @returns {{ words: string, filters: [string, string][], problem: string | null }}
 */
export function parse(text) {
  const words = [];
  const filters = [];
  let problem = null;
  for (const [whole, name, given] of text.matchAll(TOKEN)) {
    const filter = name && Object.hasOwn(NAMES, name) ? NAMES[name] : null;
    const value = (given ?? "").replaceAll('"', "");
    if (!filter) words.push(whole);
    else if (value === "") problem ??= `${name}: has no value`;
    else if (/^[<>]/.test(value) || !filter.of) {
      const bound = boundOf(filter, value);
      if (bound) filters.push(bound);
      else problem ??= filter.range ? `Invalid filter ${name}:${value} (${filter.what})` : `${name} is not a number`;
    } else filters.push([filter.of, value]);
  }
  return { words: words.join(" ").trim(), filters, problem };
}

/** Whether a text may be the id of a run; whether there is one, the collector knows. */
export function mayBeId(text) {
  return /^\S{8,200}$/.test(text) && /[0-9]/.test(text) && !/["<>]/.test(text) && !isFilter(text);
}

function isFilter(text) {
  const [name] = text.split(":", 1);
  return text.includes(":") && Object.hasOwn(NAMES, name);
}

/** The word that is being written, up to the caret: where it begins, its name and value. */
export function unfinished(text, caret) {
  const before = text.slice(0, caret);
  const quotes = before.split('"').length - 1;
  const start = quotes % 2 ? before.lastIndexOf(" ", before.lastIndexOf('"')) + 1 : before.lastIndexOf(" ") + 1;
  const word = before.slice(start);
  const [name, ...rest] = word.split(":");
  if (rest.length && Object.hasOwn(NAMES, name)) return { start, name, value: rest.join(":").replaceAll('"', "") };
  return { start, name: null, value: word };
}

/** Names that begin with what was written; those that contain it come after. */
export function namesFor(written) {
  const part = written.toLowerCase();
  const first = Object.keys(NAMES).filter((name) => name.startsWith(part));
  return [...first, ...Object.keys(NAMES).filter((name) => part && !name.startsWith(part) && name.includes(part))];
}

/** `name:value` as it is written in the box. */
export function written(name, value) {
  return `${name}:${/[\s"]/.test(value) ? `"${value.replaceAll('"', "")}"` : value}`;
}
