// Empty and error states of the views: no data, no collector, no key, too slow.

import { button, copyButton, h, link } from "./elements.js";
import { showLogin } from "./login.js";

/** Five lines that record a run at this collector. */
function program() {
  return `import tracereel
tracereel.configure(endpoint="${location.origin}")
@tracereel.traced_agent("greeter")
def greet(prompt: str) -> str: return f"Hello, {prompt}"
print(greet("world"))`;
}

function state(title, ...rest) {
  return h("section", { class: "state" }, h("h2", {}, title), rest);
}

export function loading(text = "Reading …") {
  return h("p", { class: "state quiet loading", role: "status" }, text);
}

/** First steps, for a collector without runs. */
export function noData() {
  return state("No run has been recorded yet",
    h("p", {}, "Install the package:"),
    listing("pip install tracereel"),
    h("p", {}, "Run these lines; the run appears here by itself:"),
    listing(program()),
    h("p", { class: "quiet" }, "If the collector has keys, add ", h("code", {}, 'api_key="…"'), " to ",
      h("code", {}, "configure"), ". Anything that speaks OpenTelemetry can send here too: ",
      h("code", {}, `OTEL_EXPORTER_OTLP_ENDPOINT=${location.origin}`), ". To look around first: ",
      h("code", {}, `tracereel demo --endpoint ${location.origin}`), "."));
}

function listing(text) {
  return h("pre", {}, h("code", {}, text), copyButton(text));
}

const LONG = 160;

const TEXTS = {
  away: [
    "The collector is unreachable",
    "It is not responding. Agents continue: they keep their events on disk and send them when it is back." +
      " This page retries by itself.",
  ],
  slow: [
    "That took too long",
    "The query was stopped at its time or memory limit. A shorter window or one more filter makes it quick.",
  ],
  scope: ["This key may not read", "Log in with a key that has the scope read."],
  missing: ["Not found", "It may not have been delivered yet, or it was deleted."],
  busy: ["Too many requests", "The collector is at its limit of concurrent requests. Try again in a moment."],
  bad: ["Invalid filter", "The address has a value that the collector does not accept."],
  fault: ["The collector could not answer", "Its store may be starting. The collector page says more."],
};

/** Retries to run when the collector is back, by the element that shows the failure. */
const waiting = new Map();

/** Retries everything that is still shown as unreachable. */
export function collectorAnswers() {
  const shown = [...waiting].filter(([element]) => element.isConnected);
  waiting.clear();
  for (const [, again] of shown) again();
}

/** The collector's message; long ones, as those of a store, are folded. */
function said(text) {
  if (text.length < LONG) return h("p", { class: "quiet" }, text);
  return h("details", {}, h("summary", { class: "quiet" }, "Message of the store"), h("p", { class: "quiet" }, text));
}

/** Explains a failure and offers actions; `what` names the thing that was asked for. */
export function failure(error, again, what = null) {
  if (error.kind === "key") return showLogin(again);
  const [usual, text] = TEXTS[error.kind] ?? ["This page has a bug", "Please report it."];
  const title = error.kind === "missing" && what ? `${what} not found` : usual;
  const made = h("section", { class: "state", role: "alert" }, h("h1", {}, title), h("p", {}, text),
    error.kind !== "away" && said([error.message, error.hint].filter(Boolean).join(" · ")),
    h("p", { class: "acts" }, again && button("Try again", again, { class: "primary" }),
      ["bad", "missing"].includes(error.kind) && link("#/runs", "All runs"),
      error.kind === "fault" && link("#/collector", "Collector")));
  if (error.kind === "away" && again) waiting.set(made, again);
  return made;
}
