// Reads the content of steps; the latest ones are kept.

import { ask, path } from "../shell/ask.js";

const KEPT = 12;
const known = new Map();

/**
 * Content of a step. `version` changes when the step does.
 * @param {string} trace
 * @param {string} step
 * @param {{ version?: string, signal?: AbortSignal }} [options]
 * @returns {Promise<import("./model.js").Content>}
 */
export async function readContent(trace, step, { version = "", signal } = {}) {
  const key = JSON.stringify([trace, step, version]);
  if (known.has(key)) return known.get(key);
  const content = await ask(addressOf(trace, step), { signal });
  if (content.omitted) return content; // for a moment, or too large
  known.set(key, content);
  if (known.size > KEPT) known.delete(known.keys().next().value);
  return content;
}

/** The fields of the events or the attributes of the span as they were sent. */
export async function readRaw(trace, step, signal) {
  return (await ask(`${addressOf(trace, step)}?raw=1`, { signal })).raw;
}

function addressOf(trace, step) {
  return path("v1", "traces", trace, "steps", step, "content");
}
