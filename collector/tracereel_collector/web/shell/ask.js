// HTTP client of the page. Every failure is a Refusal of one of few kinds, each with its explanation.

export class Refusal extends Error {
  /**
   * @param {string} kind away, key, scope, missing, slow, busy, bad or fault
   * @param {string} message
   * @param {string} [hint]
   */
  constructor(kind, message, hint) {
    super(message);
    this.kind = kind;
    this.hint = hint;
  }
}

const KINDS = { 400: "bad", 401: "key", 403: "scope", 404: "missing", 408: "slow", 422: "bad", 429: "busy" };

async function refusalOf(answer) {
  /** @type {{ message?: string, hint?: string }} */
  let error = {};
  try { error = (await answer.json()).error ?? {}; } catch { /* an answer that is not ours */ }
  const message = error.message ?? `The collector answered ${answer.status}`;
  let kind = KINDS[answer.status] ?? "fault";
  if (answer.status === 503 && /time|slow|memory/i.test(message)) kind = "slow";
  return new Refusal(kind, message, error.hint);
}

async function request(path, options) {
  try {
    return await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("away", "The collector is not responding");
  }
}

/**
 * Requests a path of the collector and returns its JSON or text.
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function ask(path, { signal, method = "GET", body, headers } = {}) {
  const answer = await request(path, { signal, method, body, headers });
  if (!answer.ok) throw await refusalOf(answer);
  return answer.headers.get("content-type")?.includes("json") ? answer.json() : answer.text();
}

export function path(...parts) {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/**
 * Follows `/v1/tail`: calls `each(kind, data, id)` until the signal aborts, and reconnects after failures.
 * `data` stays text, because some callers only count.
 * @param {string | URLSearchParams} query
 * @param {(kind: string, data: string, id: string) => void} each
 * @param {{ signal: AbortSignal, onState?: (state: string) => void }} options
 */
export async function follow(query, each, { signal, onState = () => {} }) {
  let last = null;
  let wait = 1000;
  while (!signal.aborted) {
    try {
      const headers = last == null ? {} : { "Last-Event-ID": last };
      const answer = await request(`/v1/tail?${query}`, { signal, headers });
      if (!answer.ok) throw await refusalOf(answer);
      onState("live");
      wait = 1000;
      for await (const { kind, data, id } of messages(answer.body)) {
        if (id) last = id;
        if (kind) each(kind, data, id);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (["key", "scope", "bad"].includes(error.kind)) { onState("refused"); return; }
    }
    onState("away");
    await new Promise((resume) => setTimeout(resume, wait));
    wait = Math.min(wait * 2, 15_000);
  }
}

async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (left + value).split("\n\n");
    left = blocks.pop();
    for (const block of blocks) {
      let kind = "", id = "", data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) kind = line.slice(7);
        else if (line.startsWith("id: ")) id = line.slice(4);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      yield { kind, data, id };
    }
  }
}
