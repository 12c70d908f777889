// Question and answer of runs that are known from spans only: read after the list is shown, each once.

import { ask } from "../shell/ask.js";

const MOST = 50;
const MOST_KNOWN = 2_000;

export class AskedReader {
  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.signal = signal;
    /** @type {Map<string, { state: string, said: { asked?: string, answered?: string } | null }>} */
    this.known = new Map();
  }

  /** What is known of a run; null if nothing is. */
  of(id) {
    return this.known.get(id)?.said ?? null;
  }

  /**
   * Reads what is not known yet, or of an earlier state of the run, and calls `found` with the ids.
   * @param {{ id: string, state: string }[]} runs
   * @param {(ids: string[]) => void} found
   */
  async read(runs, found) {
    const wanted = runs.filter(({ id, state }) => this.known.get(id)?.state !== state);
    for (let at = 0; at < wanted.length && !this.signal.aborted; at += MOST) {
      const some = wanted.slice(at, at + MOST);
      // Noted before the answer, so that a list that changes does not ask again.
      for (const { id, state } of some) this.known.set(id, { state, said: this.of(id) });
      const query = new URLSearchParams(some.map(({ id }) => ["trace_id", id]));
      const answer = await ask(`/v1/asked?${query}`, { signal: this.signal }).catch(() => null);
      if (!answer) return; // the list is readable without
      for (const { trace_id: id, ...said } of answer.runs) this.known.get(id).said = said;
      found(some.map(({ id }) => id));
    }
    for (const id of this.known.keys()) {
      if (this.known.size <= MOST_KNOWN) break;
      this.known.delete(id);
    }
  }
}
