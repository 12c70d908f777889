// Requests the elements of a Markdown text from the worker. Without an answer in time the text stays as it is.

/** @typedef {import("./markdown.js").Node} Node */

const PATIENCE_MS = 1500;
/** Longer texts are not laid out: they are read as they were written. */
const LONGEST = 100_000;
const KEPT = 400;
const KEPT_LENGTH = 8_000;

let worker = null;
let timer;
let numbers = 0;
/** @type {{ number: number, text: string, signal?: AbortSignal, done: (nodes: Node[] | null) => void }[]} */
let waiting = [];
/** Latest texts with their elements: a conversation is read again and again, one call after the other. */
const known = new Map();

/** Starts the worker before it is needed. */
export function warmUp() {
  if (worker) return;
  worker = new Worker("./lexer_worker.js", { type: "module" });
  worker.addEventListener("message", ({ data }) => answered(data.number, data.nodes));
  worker.addEventListener("error", () => giveUp());
}

/**
 * Elements of a text, or null if it is to be shown as it is. The answer is there at once if the text is known.
 * @param {string} text
 * @param {AbortSignal} [signal]
 * @returns {Node[] | null | Promise<Node[] | null>}
 */
export function markdown(text, signal) {
  if (text.length > LONGEST) return null;
  if (known.has(text)) return known.get(text);
  return new Promise((done) => {
    warmUp();
    numbers += 1;
    waiting.push({ number: numbers, text, signal, done });
    if (waiting.length === 1) ask();
  });
}

function ask() {
  const { number, text } = waiting[0];
  worker.postMessage({ number, text });
  clearTimeout(timer);
  timer = setTimeout(giveUp, PATIENCE_MS + text.length / 50);
}

function answered(number, nodes) {
  if (waiting[0]?.number !== number) return;
  clearTimeout(timer);
  const { text, done } = waiting.shift();
  if (nodes === null || text.length < KEPT_LENGTH) known.set(text, nodes);
  if (known.size > KEPT) known.delete(known.keys().next().value);
  done(nodes);
  waiting = waiting.filter((each) => !each.signal?.aborted);
  if (waiting.length) ask();
}

/** The text that is being read is left as it is; the others go to a new worker. */
function giveUp() {
  worker?.terminate();
  worker = null;
  if (!waiting.length) return;
  if (waiting.length > 1) warmUp();
  answered(waiting[0].number, null);
}
