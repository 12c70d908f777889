// Reads a run: its tree, its events page by page, and single steps of long runs.

import { ask, path } from "../shell/ask.js";

const PAGE = 5000;
/** Longer runs come in outline: steps and events are read when they are opened. */
export const OUTLINE_ABOVE = 2000;

/** Whether an address asks for attempts, retries and fallbacks in which nothing was retried or replaced. */
export function allOf(query) {
  return query.get("attempts") === "all";
}

/**
 * @param {string} id
 * @param {AbortSignal} signal
 * @param {boolean} [all] also steps of attempts in which nothing happened
 */
export function readRun(id, signal, all = false) {
  const query = new URLSearchParams({ outline_above: String(OUTLINE_ABOVE), ...(all ? { attempts: "all" } : {}) });
  return ask(`${path("v1", "traces", id)}?${query}`, { signal });
}

/**
 * Calls `each` with the entries of every page after `after` and whether the page is the last one.
 * @param {string} id
 * @param {(entries: any[], last: boolean) => void} each
 * @param {{ signal?: AbortSignal, after?: any, all?: boolean }} [options]
 */
export async function readEvents(id, each, { signal, after = null, all = false } = {}) {
  let next = after;
  do {
    const query = new URLSearchParams({ limit: String(PAGE), ...(next == null ? {} : { after: next }) });
    if (all) query.set("attempts", "all");
    const page = await ask(`${path("v1", "replay", id)}?${query}`, { signal });
    next = page.next;
    each(page.timeline, next == null);
  } while (next != null);
}

/** Completes a step of an outline and returns its events as entries of a replay. */
export async function readStep(id, step, signal) {
  const query = new URLSearchParams({ step: step.id, alone: "true" });
  const answer = await ask(`${path("v1", "traces", id)}?${query}`, { signal });
  // Depth, sums and clocks are those of the whole run, which the outline knows.
  for (const [name, value] of Object.entries(answer.step)) if (step[name] === undefined) step[name] = value;
  return answer.events.map((details) => ({ event: details.event_type, details, step: { id: step.id } }));
}
