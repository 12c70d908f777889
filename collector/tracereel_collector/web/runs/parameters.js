// Parameters of the list of runs, in the address of the page and in requests to the collector.

import { ask } from "../shell/ask.js";

export const FILTERS = [
  "status", "pipeline", "agent", "model", "provider", "service", "session", "user", "error", "category", "code",
  "attribute", "min_duration_ms", "max_duration_ms", "min_cost_usd", "max_cost_usd", "min_tokens", "max_tokens",
  "min_confidence", "max_confidence", "min_errors", "min_retries", "min_fallbacks",
  "score", "score_category", "min_score", "max_score", "decision_type", "decision_category", "decision_agent",
  "decision_chosen", "min_decision_confidence", "max_decision_confidence", "below_threshold",
];
const PASSED = [...FILTERS, "q", "from", "to", "sort", "order", "live"];
/** Filters that a run may match by any of several values; the others have one value. */
const SEVERAL = new Set([
  "status", "pipeline", "agent", "model", "provider", "service", "session", "user", "error", "category", "code",
  "attribute", "score", "score_category", "decision_type", "decision_category", "decision_agent", "decision_chosen",
]);
export const DEFAULT_WINDOW = "1h";
export const PAGE = 50;
/** Agent executions drawn per run; one more is requested to know whether there are more. */
export const MOST_EXECUTIONS = 16;
const MOST_SCORES = 4;
const AGES = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The query for the collector: the known parameters of an address. */
export function questionOf(query) {
  const question = new URLSearchParams();
  for (const name of PASSED) for (const value of query.getAll(name)) question.append(name, value);
  if (!question.has("from") && !question.has("to")) question.set("from", DEFAULT_WINDOW);
  return question;
}

/** Changes of the address that add filters to it. */
export function adding(question, filters) {
  const changes = {};
  for (const [name, value] of filters) {
    const before = changes[name] ?? question.getAll(name);
    changes[name] = SEVERAL.has(name) ? [...new Set([...before, value])] : value;
  }
  return changes;
}

/** The same parameters with a window that stays where it is, however late they are opened. */
export function frozen(question, now = Date.now()) {
  const made = new URLSearchParams(question);
  const absolute = (text) => {
    const [, number, unit] = /^([0-9]{1,6})([mhd])$/.exec(text) ?? [];
    return unit ? new Date(now - Number(number) * AGES[unit]).toISOString() : text;
  };
  for (const name of ["from", "to"]) if (made.has(name)) made.set(name, absolute(made.get(name)));
  if (!made.has("to")) made.set("to", new Date(now).toISOString());
  made.delete("live");
  return made;
}

/** Reads the list as it is first shown; `app` asks for it before the view is made. */
export function readRuns(question, signal, changes = {}) {
  const query = new URLSearchParams(question);
  query.delete("live"); // a parameter of the page only: the collector refuses unknown ones
  const wanted = { limit: PAGE, executions: MOST_EXECUTIONS + 1, scores: MOST_SCORES, ...changes };
  for (const [name, value] of Object.entries(wanted)) query.set(name, String(value));
  return ask(`/v1/traces?${query}`, { signal });
}
