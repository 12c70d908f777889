// Details of one step: input, output, reasoning, decisions, error.

import { button, copyButton, h } from "../shell/elements.js";
import { agentName, badge } from "../shell/pieces.js";
import { NONE, confidence, cost, count, duration, kindName, laidOut, plain } from "../shell/words.js";

const LONG = 6_000;
/** Characters of a text that the collector sends with a step, at most. */
const CUT = 2_000;

export function block(title, value, { open = true } = {}) {
  if (value == null || value === "" || (Array.isArray(value) && !value.length)) return null;
  const text = laidOut(value);
  const pre = h("pre", { class: "value", tabindex: "0" }, text.slice(0, LONG));
  const rest =
    text.length > LONG &&
    button(
      `Show all ${count(text.length)} characters`,
      (event) => {
        pre.textContent = text;
        event.target.remove();
      },
      { class: "small" },
    );
  return folding(h("details", { open }, h("summary", {}, h("h3", {}, title)), pre, rest), title, text);
}

/** The copy button is beside the title, because a summary cannot contain a button. */
function folding(details, title, text) {
  return h("div", { class: "block" }, details, copyButton(text, "Copy", title));
}

function fields(pairs) {
  return h(
    "dl",
    { class: "fields" },
    pairs
      .filter(([, value]) => value != null && value !== "" && value !== NONE)
      .map(([name, value, hint]) => h("div", { title: hint }, h("dt", {}, name), h("dd", {}, value))),
  );
}

function outcomeOf(successful) {
  return successful == null ? null : successful ? "succeeded" : "failed";
}

function candidatesOf(details) {
  const { candidates, chosen } = details;
  if (!Array.isArray(candidates)) return null;
  const wanted = JSON.stringify(chosen);
  return h("ul", { class: "candidates", "aria-label": "Candidates" }, candidates.slice(0, 50).map((each) => {
    const label = each?.value ?? each?.name ?? each?.label ?? each;
    const score = each?.confidence ?? each?.score;
    const won = JSON.stringify(each) === wanted || JSON.stringify(label) === wanted;
    return h(
      "li",
      { class: won ? "won" : "" },
      h("span", { "aria-hidden": "true" }, won ? "●" : "○"),
      h(
        "span",
        {},
        plain(typeof label === "string" ? label : JSON.stringify(label)),
        won && h("span", { class: "hidden-visually" }, " (chosen)"),
      ),
      score != null && h("span", { class: "quiet" }, confidence(Number(score))),
    );
  }));
}

function decisions(step, entries) {
  const events = new Map(
    entries
      .filter((each) => each.event === "agent.decision.recorded")
      .map((each) => [each.details.event_id, each.details]),
  );
  return (step.decisions ?? []).map((decision) => {
    const details = events.get(decision.event_id) ?? decision;
    return h(
      "section",
      { class: "decision" },
      h(
        "h3",
        {},
        `Decision: ${plain(decision.type ?? "")}`,
        decision.confidence != null && h("span", { class: "quiet" }, ` confidence ${confidence(decision.confidence)}`),
      ),
      decision.chosen != null &&
        !Array.isArray(details.candidates) &&
        h(
          "p",
          {},
          "Chosen: ",
          h("b", {}, plain(typeof decision.chosen === "string" ? decision.chosen : JSON.stringify(decision.chosen))),
        ),
      decision.reasoning && h("p", {}, plain(decision.reasoning)),
      candidatesOf(details),
      block("Decided on", details.input_data ?? decision.input, { open: false }),
      block("Decided", details.output_data ?? decision.output, { open: false }),
    );
  });
}

/** Events that the program added to the span of the step. */
function spanEvents(step) {
  return (step.span_events ?? []).map(({ name, offset_ms: at, attributes }) =>
    h(
      "section",
      { class: "span-event" },
      h("h3", {}, `Span event: ${plain(name)}`, h("span", { class: "quiet" }, ` +${duration(at)}`)),
      fields(
        Object.entries(attributes ?? {}).map(([key, value]) => [
          plain(key),
          plain(typeof value === "string" ? value : JSON.stringify(value)),
        ]),
      ),
    ),
  );
}

function failureOf(step, stack) {
  if (!step.error) return null;
  const { type, message, code, category } = step.error;
  return h(
    "section",
    { class: "notice bad wide" },
    h(
      "div",
      {},
      h("b", {}, plain(type ?? "Error")),
      code && h("code", {}, ` ${plain(code)}`),
      category && h("span", { class: "quiet" }, ` ${plain(category)}`),
      h("pre", {}, plain(message ?? "")),
      stack &&
        folding(
          h(
            "details",
            { open: true },
            h("summary", {}, h("h3", {}, "Stack trace")),
            h("pre", { class: "value", tabindex: "0" }, plain(stack)),
          ),
          "Stack trace",
          stack,
        ),
    ),
  );
}

/** Event fields that hold input and output, in the collector's order of precedence. */
const GIVEN = ["arguments", "input_messages", "query", "user_prompt", "input_data", "input_summary"];
const MADE = [
  "result",
  "output_messages",
  "documents",
  "output_data",
  "output_summary",
  "result_summary",
  "fallback_output_summary",
];

/** A step has the beginning of a long text; its events have all of it. */
function whole(text, entries, names) {
  if (typeof text !== "string" || text.length < CUT) return text;
  for (const { details } of entries) {
    const found = names.map((name) => details[name]).find((each) => each != null && each !== "");
    const all = typeof found === "string" ? found : JSON.stringify(found ?? "");
    if (all.length > text.length) return all;
  }
  return text;
}

export const wentIn = (step, entries) => whole(step.input, entries, GIVEN);
export const cameOut = (step, entries) => whole(step.output, entries, MADE);

/** `entries` are the entries of the replay that belong to the step, as far as they are loaded. */
export function stepDetails(step, entries, { onZoom, onSeek, chain }) {
  const stack = entries.map((each) => each.details.stack_trace).find(Boolean);
  const first = entries[0]?.details ?? {};
  const messages = entries.filter((each) => each.event === "agent.message.normalized");
  const raw = () => JSON.stringify({ step: withoutMarks(step), events: entries.map((each) => each.details) }, null, 2);
  return h(
    "div",
    { class: "details" },
    h(
      "header",
      {},
      h("h2", {}, plain(step.name), step.attempt ? ` #${step.attempt}` : ""),
      badge(step.status),
      h(
        "span",
        { class: "end" },
        button("Play from here", () => onSeek(step.begin), { class: "small" }),
        button("Zoom", () => onZoom(step), { class: "small", title: "Zoom on this step (z)" }),
      ),
    ),
    failureOf(step, stack),
    fields([
      ["Kind", kindName(step.kind)],
      ["Agent", step.agent && agentName(step.agent)],
      ["Began", `+${duration(step.begin)}`, "After the beginning of the run"],
      ["Took", step.open ? "not ended" : duration(step.duration_ms)],
      [
        "Reported",
        step.reported_duration_ms != null && Math.abs(step.reported_duration_ms - (step.duration_ms ?? 0)) > 2
          ? duration(step.reported_duration_ms)
          : null,
        "Duration that the step itself reported",
      ],
      ["Model", step.model && plain([step.provider, step.model].filter(Boolean).join(" / "))],
      [
        "Tokens",
        step.tokens && [
          count(step.tokens),
          step.prompt_tokens != null && ` (${count(step.prompt_tokens)} in, ${count(step.completion_tokens)} out)`,
        ],
      ],
      ["Cost", step.cost_usd != null ? cost(step.cost_usd) : null, "With all steps below it"],
      ["Confidence", confidence(step.confidence)],
      ["First token", first.time_to_first_token_ms != null ? duration(first.time_to_first_token_ms) : null],
      ["Ended by", plain(first.finish_reason ?? "")],
      ["Outcome", plain(step.outcome ?? "")],
      ["Service", plain(step.service ?? "")],
      ["Source", step.source === "events" ? null : step.source],
      ["Fallback", outcomeOf(step.fallback_successful), "Whether a fallback delivered the result instead"],
      ["Retry", outcomeOf(step.retry_successful), "How the attempt after this one ended"],
      [
        "Critical path",
        step.critical ? duration(step.critical.reduce((sum, each) => sum + each.duration_ms, 0)) : null,
        "How long the run waited for this step itself",
      ],
      ["Clock", step.clock_shift_ms ? `moved by ${duration(step.clock_shift_ms)} to fit its caller` : null],
      ["Parent", step.missing_parent_id ? `${plain(step.missing_parent_id)}, which is not known` : null],
    ]),
    chain,
    block("Input", wentIn(step, entries)),
    block("Output", cameOut(step, entries)),
    block("Reasoning", step.reasoning),
    decisions(step, entries),
    spanEvents(step),
    messages.map(({ details }) => block(`Message: ${plain(details.role ?? details.message_type)}`, details.content)),
    rawBlock(raw),
  );
}

function withoutMarks(step) {
  const { index, begin, finish, open, critical, wasted, parent, ownTokens, ownCost, ...rest } = step;
  return rest;
}

/** Raw JSON is created when it is unfolded: it may be large. */
function rawBlock(raw) {
  const pre = h("pre", { class: "value", tabindex: "0" });
  const made = h("details", {}, h("summary", {}, h("h3", {}, "Raw JSON")), pre);
  made.addEventListener("toggle", () => { if (made.open) pre.textContent = plain(raw().slice(0, 400_000)); });
  return folding(made, "Raw JSON", () => plain(raw()));
}
