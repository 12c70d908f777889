// Requests the run that the address names before the page is loaded, because that takes longest.

import { here } from "./shell/address.js";
import { readRun } from "./run/reading.js";

const first = here();
const stop = new AbortController();
let asked = first.view === "run" && first.parts[0] ? readRun(first.parts[0], stop.signal) : null;
asked?.catch(() => {}); // the view shows the failure

/** Returns the early request if it is for this run and not used yet, else a new one. */
export function beginRun(id, signal) {
  const early = first.parts[0] === id ? asked : null;
  asked = null;
  if (!early) return readRun(id, signal);
  signal.addEventListener("abort", () => stop.abort());
  return early;
}
