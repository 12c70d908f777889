// Asks for the run that the address names before the page itself is loaded: the answer takes longer than the page.

import { here } from "./shell/address.js";
import { readRun } from "./run/reading.js";

const first = here();
const stop = new AbortController();
let asked = first.view === "run" && first.parts[0] ? readRun(first.parts[0], stop.signal) : null;
asked?.catch(() => {}); // the view that waits for it says so

/** The answer that was asked for first, to the one who wants it; to all others, one of their own. */
export function beginRun(id, signal) {
  const early = first.parts[0] === id ? asked : null;
  asked = null;
  if (!early) return readRun(id, signal);
  signal.addEventListener("abort", () => stop.abort());
  return early;
}
