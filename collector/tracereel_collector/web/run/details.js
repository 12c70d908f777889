// Details of one step: figures, content, reasoning, decisions, error, scores.

import { block, folding, valueOf } from "../content/block.js";
import { structureOf } from "../content/model.js";
import { ScoreBox, scoreButton } from "../content/scores.js";
import { ContentView } from "../content/view.js";
import { button, h } from "../shell/elements.js";
import { agentName, badge, replace } from "../shell/pieces.js";
import { NONE, confidence, cost, count, duration, kindName, plain } from "../shell/words.js";

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
        (structureOf(decision.chosen)
          ? h("div", {}, "Chosen:", valueOf(decision.chosen, { label: "Chosen" }))
          : h("p", {}, "Chosen: ", h("b", {}, plain(decision.chosen)))),
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
        folding("Stack trace", h("pre", { class: "value", tabindex: "0" }, plain(stack)), { copied: plain(stack) }),
    ),
  );
}

/** Tokens with the parts that are known of them. */
function tokensOf(step, usage) {
  const input = usage.input ?? step.prompt_tokens;
  const output = usage.output ?? step.completion_tokens;
  const total = step.tokens ?? usage.total ?? (input != null && output != null ? input + output : null);
  if (total == null) return null;
  return [count(total), input != null && ` (${count(input)} in, ${count(output)} out)`];
}

/**
 * Figures of a step; those of a model call come with its content.
 * @param {any} step
 * @param {import("../content/model.js").Content | null} content
 */
function figuresOf(step, content) {
  const call = content?.kind === "model" ? content : null;
  const usage = call?.usage ?? {};
  const model = [call?.provider ?? step.provider, call?.model ?? step.model].filter(Boolean).join(" / ");
  return fields([
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
    ["Model", plain(model)],
    ["Tokens", tokensOf(step, usage)],
    [
      "Cached",
      usage.cache_read != null ? count(usage.cache_read) : null,
      "Input tokens read from the provider's cache",
    ],
    [
      "Cache writes",
      usage.cache_write ? count(usage.cache_write) : null,
      "Input tokens written to the provider's cache",
    ],
    ["Reasoning", usage.reasoning != null ? count(usage.reasoning) : null, "Output tokens that were thinking"],
    ["Cost", step.cost_usd != null ? cost(step.cost_usd) : null, "With all steps below it"],
    ["Confidence", confidence(step.confidence)],
    ["First token", call?.first_token_ms != null ? duration(call.first_token_ms) : null],
    ["Tokens a second", call?.tokens_per_second != null ? call.tokens_per_second.toFixed(1) : null],
    ["Finish reason", plain(call?.finish_reason ?? "")],
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
  ]);
}

export class StepDetails {
  /**
   * @param {{ trace: string, signal: AbortSignal, onZoom: (step: any) => void, onSeek: (at: number) => void }} given
   */
  constructor({ trace, signal, onZoom, onSeek }) {
    this.onZoom = onZoom;
    this.onSeek = onSeek;
    this.top = h("div", { class: "step-top" });
    this.figures = h("div", {});
    this.more = h("div", { class: "step-more" });
    this.contentOf = new ContentView({ trace, signal, onContent: (content) => this.#drawFigures(content) });
    this.scores = new ScoreBox({ trace, signal });
    this.element = h(
      "div",
      { class: "details" },
      this.top,
      this.figures,
      this.contentOf.element,
      this.more,
      this.scores.element,
    );
  }

  /**
   * Shows a step. A running run is reloaded often: what did not change is not redrawn under its reader.
   * @param {any} step
   * @param {any[] | null} entries those of the replay that belong to the step; null while they are read
   * @param {any} chain
   */
  show(step, entries, chain) {
    const version = `${step.status} ${step.duration_ms} ${step.tokens}`;
    const now = `${step.id} ${version} ${step.cost_usd} ${entries?.length} ${Boolean(chain)}`;
    this.contentOf.show(step.id, version);
    if (now === this.drawn) return;
    this.drawn = now;
    this.step = step;
    this.#drawFigures(this.contentOf.content);
    const stack = (entries ?? []).map((each) => each.details.stack_trace).find(Boolean);
    const messages = (entries ?? []).filter((each) => each.event === "agent.message.normalized");
    const executions = (entries ?? []).map((each) => each.details.execution_id).filter(Boolean);
    this.scores.show({ step: step.id, executions });
    replace(
      this.top,
      h(
        "header",
        {},
        h("h2", {}, plain(step.name), step.attempt ? ` #${step.attempt}` : ""),
        badge(step.status),
        h(
          "span",
          { class: "end" },
          scoreButton(this.scores),
          button("Play from here", () => this.onSeek(step.begin), { class: "small" }),
          button("Zoom", () => this.onZoom(step), { class: "small", title: "Zoom on this step (z)" }),
        ),
      ),
      ...[failureOf(step, stack), chain].filter(Boolean),
    );
    const more = [
      block("Reasoning", step.reasoning, { laidOut: true }),
      entries === null && h("p", { class: "quiet", role: "status" }, "Reading the step …"),
      ...decisions(step, entries ?? []),
      ...spanEvents(step),
      ...messages.map(({ details }) =>
        block(`Message: ${plain(details.role ?? details.message_type)}`, details.content, { laidOut: true }),
      ),
    ];
    replace(this.more, ...more.filter(Boolean));
  }

  #drawFigures(content) {
    if (this.step) this.figures.replaceChildren(figuresOf(this.step, content));
  }

  /** Forgets what is drawn, so that the next step is drawn in full. */
  forget() {
    this.drawn = "";
  }
}
