// List of events, messages, decisions and gaps in order; follows the playhead.

import { h } from "../shell/elements.js";
import { choice } from "../shell/pieces.js";
import { colourOf, duration, plain, several } from "../shell/words.js";
import { Rows } from "./rows.js";

const ROW = { mouse: 38, finger: 44 };
const KINDS = [["all", "All"], ["decision", "Decisions"], ["message", "Messages"], ["error", "Errors"]];

/** Entries of a replay as lines, with gaps where numbers are missing. */
export function linesOf(timeline, completeness) {
  const gaps = new Map();
  for (const emitter of completeness?.emitters ?? []) {
    for (const [first, last] of emitter.gaps ?? [])
      gaps.set(`${emitter.emitter_id} ${first - 1}`, { first, last, emitter });
  }
  const lines = [];
  for (const entry of timeline) {
    const { details, event, step = {} } = entry;
    lines.push({
      at: Math.max(0, step.offset_ms ?? 0),
      step: step.id,
      event,
      kind: kindOf(event, details),
      agent: details.agent_name ?? step.agent ?? details.primary_agent ?? "",
      of: calledBy(event, details),
      text: textOf(event, details),
    });
    const gap = gaps.get(`${details.emitter_id} ${details.trace_seq}`);
    if (gap) {
      lines.push({
        at: Math.max(0, step.offset_ms ?? 0),
        event: "gap",
        kind: "error",
        agent: plain(gap.emitter.service ?? ""),
        gap: true,
        text:
          gap.first === gap.last
            ? `1 event is missing here (${gap.first}): it has not arrived`
            : `${several(gap.last - gap.first + 1, "event")} are missing here (${gap.first} to ${gap.last}):` +
              " they have not arrived",
      });
    }
  }
  return lines;
}

function kindOf(event, details) {
  if (event === "agent.decision.recorded" || (event === "otel.span_event" && details.name === "decision_recorded"))
    return "decision";
  if (event === "agent.message.normalized" || event === "agent.llm.called") return "message";
  if (event.endsWith(".failed") || details.status === "failed" || details.error_type) return "error";
  if (event === "agent.retry.attempted" || event === "agent.fallback.triggered") return "error";
  return "other";
}

/** The called tool, model, retriever or step of an event. */
function calledBy(event, details) {
  const { tool_name: tool, llm_model: model, retrieval_name: retriever, step_name: step } = details;
  return (
    {
      "agent.tool.called": tool,
      "agent.llm.called": model,
      "agent.retrieval.completed": retriever,
      "agent.step.completed": step,
    }[event] ?? ""
  );
}

/** Attributes of a span event on one line. */
function attributesOf(attributes) {
  return Object.entries(attributes ?? {}).map(([name, value]) => `${name}: ${wordsOf(value)}`).join(", ");
}

/** Unwraps a text that is the only element of a list. */
function wordsOf(value) {
  if (typeof value === "string") return value;
  return Array.isArray(value) && value.length === 1 && typeof value[0] === "string" ? value[0] : JSON.stringify(value);
}

function textOf(event, details) {
  if (event === "otel.span_event")
    return plain([details.name, attributesOf(details.attributes)].filter(Boolean).join(" · ")).slice(0, 400);
  const parts = [];
  if (event === "agent.retry.attempted")
    parts.push(`attempt ${details.retry_attempt} failed, again in ${duration(details.delay_seconds * 1000)}`);
  if (event === "agent.fallback.triggered")
    parts.push(`${details.fallback_agent} takes over: ${details.trigger_reason}`);
  if (details.decision_type && event === "agent.decision.recorded") parts.push(details.decision_type);
  if (details.chosen != null)
    parts.push(`→ ${typeof details.chosen === "string" ? details.chosen : JSON.stringify(details.chosen)}`);
  const said =
    details.error_message ??
    details.reasoning ??
    details.content ??
    details.output_summary ??
    details.result_summary ??
    details.input_summary ??
    details.user_prompt ??
    details.original_error ??
    details.primary_error ??
    details.query ??
    details.arguments ??
    details.output_messages ??
    details.name;
  if (said != null) parts.push(wordsOf(said));
  return plain(parts.join(" · ")).slice(0, 400);
}

const SHORT = {
  "agent.execution.started": "started",
  "agent.execution.completed": "completed",
  "agent.execution.failed": "failed",
  "agent.execution.cancelled": "cancelled",
  "agent.pipeline.started": "run started",
  "agent.pipeline.completed": "run ended",
  "agent.decision.recorded": "decided",
  "agent.retry.attempted": "retry",
  "agent.fallback.triggered": "fallback",
  "agent.llm.called": "model",
  "agent.tool.called": "tool",
  "agent.retrieval.completed": "search",
  "agent.step.completed": "step",
  "agent.message.normalized": "message",
  "otel.span": "span",
  "otel.span_event": "span event",
  gap: "gap",
};

export class Events {
  constructor({ onChoose }) {
    this.kind = "all";
    this.lines = [];
    this.moment = Infinity;
    this.rows = new Rows({
      heights: ROW,
      draw: (line, index) => this.#draw(line, index),
      label: "Events of the run",
      role: "listbox",
      className: "event-rows",
    });
    this.rows.element.addEventListener("click", (event) => {
      const row = event.target.closest(".event-row");
      if (row) this.#take(this.shown.indexOf(row.line));
    });
    this.rows.element.addEventListener("keydown", (event) => this.#walk(event));
    this.onChoose = onChoose;
    this.taken = -1;
    this.chooser = h("div", { class: "event-kinds" });
    this.element = h("div", { class: "events" }, this.chooser, this.rows.element);
    this.#choose("all");
  }

  #choose(kind) {
    this.kind = kind;
    this.taken = -1;
    this.chooser.replaceChildren(
      choice("Kinds of events", KINDS, kind, (value) => this.#choose(value)),
      this.note ?? "",
    );
    this.set(this.lines);
  }

  set(lines, note) {
    this.lines = lines;
    if (note !== undefined) {
      this.note = note;
      this.chooser.replaceChildren(this.chooser.firstChild, h("span", { class: "quiet" }, note));
    }
    this.shown = this.kind === "all" ? lines : lines.filter((line) => line.kind === this.kind);
    this.rows.set(this.shown);
    this.seek(this.moment, { follow: false });
  }

  /** Appends lines. */
  add(lines, note) {
    for (const line of lines) this.lines.push(line);
    this.set(this.lines, note);
  }

  /** Arrow keys move between events and move the playhead along. */
  #walk(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#take(Math.min(this.shown.length - 1, Math.max(0, this.taken + by)));
  }

  #take(index) {
    const line = this.shown[index];
    if (!line) return;
    this.onChoose(line);
    this.taken = index;
    this.rows.reveal(index);
    for (const [at, row] of this.rows.shown) row.setAttribute("aria-selected", String(at === index));
    this.rows.element.setAttribute("aria-activedescendant", `event-${index}`);
  }

  #draw(line, index) {
    const row = h(
      "div",
      {
        class: `event-row e-${line.kind}${line.gap ? " gap" : ""}`,
        role: "option",
        id: `event-${index}`,
        "aria-selected": String(index === this.taken),
      },
      h("span", { class: "event-at" }, duration(line.at)),
      h(
        "span",
        { class: "event-name" },
        line.agent && h("span", { class: "dot", vars: { "--agent": colourOf(line.agent) } }),
        h("b", {}, SHORT[line.event] ?? plain(line.event)),
        " ",
        line.of && h("span", { class: "event-of" }, `${plain(line.of)} `),
        h("span", { class: "quiet" }, plain(line.agent)),
      ),
      h("span", { class: "event-text", title: line.text }, line.text),
    );
    row.line = line;
    this.#paint(row, index);
    return row;
  }

  #paint(row, index) {
    row.classList.toggle("future", row.line.at > this.moment);
    row.classList.toggle("now", index === this.last);
  }

  /** Moves the playhead: marks the last event before it and keeps it in view. */
  seek(moment, { follow = true } = {}) {
    this.moment = moment;
    let low = 0, high = this.shown.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.shown[middle].at <= moment) low = middle + 1;
      else high = middle;
    }
    this.last = low - 1;
    for (const [index, row] of this.rows.shown) this.#paint(row, index);
    if (follow && low > 0) this.rows.reveal(low - 1);
  }

  stop() {
    this.rows.stop();
  }
}
