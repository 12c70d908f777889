// Overview of a run: figures, warnings, retries and fallbacks, agents, critical path.

import { address } from "../shell/address.js";
import { button, h, link } from "../shell/elements.js";
import { agentName, badge, costWithUnpriced, facts, notice, replace } from "../shell/pieces.js";
import { NONE, confidence, cost, count, duration, plain, priceRemedy, several } from "../shell/words.js";
import { replaySections } from "./replayable.js";

const MOST_CLOCKS = 4;

export function figures(run) {
  const { summary, steps } = run;
  const root = steps[0] ?? {};
  const wasted = summary.wasted ?? {};
  return facts([
    [
      "Duration",
      duration(run.running ? run.length : (summary.duration_ms ?? root.duration_ms)),
      run.running ? "So far" : "From the beginning of the run to its end",
    ],
    ["Steps", count(summary.total_steps), "Rows of the waterfall"],
    ["Tokens", count(summary.llm_tokens_used), "Of all model calls, those that failed included"],
    [
      "Cost",
      costWithUnpriced(summary, summary.llm_cost_usd),
      priceRemedy(summary) ||
        (summary.llm_cost_usd == null
          ? "No call reported a cost or tokens"
          : "Reported by the calls, or calculated from the price table"),
    ],
    ["Confidence", confidence(root.confidence), "Of the run as a whole"],
    [
      "Errors",
      count(summary.errors),
      "Agents that failed, or calls outside of agents, or the pipeline",
      summary.errors ? "bad" : "",
    ],
    ["Retries", count(summary.retries), "Number of retries", summary.retries ? "warn" : ""],
    ["Fallbacks", count(summary.fallbacks), "Number of fallbacks to another agent", summary.fallbacks ? "warn" : ""],
    wasted.time_ms > 0 && [
      "Wasted",
      [duration(wasted.time_ms), wasted.cost_usd > 0 && ` · ${cost(wasted.cost_usd)}`],
      "Time and cost of failed, repeated and abandoned attempts",
      "warn",
    ],
  ]);
}

/** Notices about errors, missing events and wrong clocks. */
export function warnings(run, completeness, { onSelect }) {
  const { summary } = run;
  const made = [];
  const failed = summary.fatal_error ?? (run.state === "failed" ? summary.first_error : null);
  if (failed) {
    const cause = failed.cause ?? failed;
    const follows = failed.cause && (failed.message !== cause.message || failed.type !== cause.type);
    made.push(
      notice(
        "bad",
        h(
          "span",
          {},
          cause.name && [h("b", {}, plain(cause.name)), " failed: "],
          h("b", {}, plain(cause.type ?? failed.type ?? "Error")),
          " ",
          plain(cause.message ?? failed.message ?? ""),
          follows &&
            h(
              "span",
              { class: "then" },
              "→ ",
              plain(failed.name),
              ": ",
              plain(failed.type ?? ""),
              " ",
              plain(failed.message ?? ""),
            ),
        ),
        button("Show the step", () => onSelect(cause.step ?? failed.step), { class: "small" }),
      ),
    );
  }
  if (summary.unpriced_tokens) made.push(notice("warn", priceRemedy(summary)));
  const verdict = completeness?.verdict ?? summary.completeness?.verdict;
  if (verdict === "incomplete") {
    const missing = completeness?.missing ?? summary.completeness.missing;
    const waiting = completeness?.in_queue?.events;
    made.push(
      notice(
        "warn",
        h(
          "span",
          {},
          h("b", {}, `${count(missing)} ${missing === 1 ? "event is" : "events are"} missing.`),
          " What is shown is not all that happened",
          waiting ? `; ${count(waiting)} wait in the collector's queue.` : ".",
          ...gapsOf(completeness),
        ),
      ),
    );
  }
  if (run.state === "crashed")
    made.push(
      notice(
        failed ? "warn" : "bad", // one red notice is enough for one run
        h("span", {}, h("b", {}, "The process is gone."), " Its heartbeats stopped before this run ended."),
      ),
    );
  if (run.state === "unknown")
    made.push(
      notice("warn", h("span", {}, h("b", {}, "The end is not known."), " Its last events may still be pending.")),
    );
  const clocks = wrongClocks(summary, completeness);
  if (clocks.length)
    made.push(
      notice("warn", h("span", {}, h("b", {}, "Clocks disagree."), ` ${clocks.slice(0, MOST_CLOCKS).join(" ")}`)),
    );
  if (summary.truncated)
    made.push(
      notice(
        "warn",
        h("span", {}, h("b", {}, "Not all of it is shown."), " The run is larger than one answer may be."),
      ),
    );
  return made;
}

function gapsOf(completeness) {
  return (completeness?.emitters ?? [])
    .filter((each) => each.missing)
    .slice(0, 3)
    .map((each) =>
      h(
        "span",
        { class: "quiet" },
        ` ${plain(each.service || each.emitter_id)}: number ${each.gaps
          .slice(0, 5)
          .map(([a, b]) => (a === b ? a : `${a}–${b}`))
          .join(", ")}.`,
      ),
    );
}

/** A sentence for each clock that contradicts the others, or the collector's. */
function wrongClocks(summary, completeness) {
  const services = new Map((completeness?.emitters ?? []).map((each) => [each.emitter_id, each.service]));
  const nameOf = (clock) => plain(services.get(clock) || clock.replace(/^service:/, ""));
  const off = (by) => `${duration(Math.abs(by))} ${by > 0 ? "ahead" : "behind"}`;
  const moved = Object.entries(summary.clock_shifts_ms ?? {}).map(
    ([clock, by]) => `That of ${nameOf(clock)} is at least ${off(-by)}: its steps were moved to where they fit.`,
  );
  const wrong = (completeness?.clocks ?? [])
    .filter((each) => each.ahead_of_collector_ms != null && each.moved_by_ms == null)
    .map(
      (each) =>
        `That of ${nameOf(each.clock)} is ${off(each.ahead_of_collector_ms)}` +
        ` ${each.ahead_of_collector_ms > 0 ? "of " : ""}the collector's: its timestamps are shown as sent.`,
    );
  return [...moved, ...wrong];
}

/** A chain of attempts as one line. */
export function chainLine(chain, { onSelect }) {
  const links = chain.links.map((each) => [
    h(
      "li",
      { class: `attempt-link s-${each.status}` },
      h(
        "button",
        {
          type: "button",
          disabled: !each.step,
          on: { click: () => onSelect(each.step) },
          title: plain(each.error ?? ""),
        },
        badge(each.status),
        h("span", {}, each.what === "fallback" ? plain(each.agent) : `attempt ${each.number}`),
        h("span", { class: "quiet" }, duration(each.duration_ms)),
      ),
    ),
    each.waited_ms && h("li", { class: "quiet wait" }, `waits ${duration(each.waited_ms)}`),
  ]);
  return h(
    "section",
    { class: "chain" },
    h(
      "h3",
      {},
      plain(chain.name),
      " ",
      h(
        "span",
        { class: "quiet" },
        [several(chain.attempts, "attempt"), chain.fallbacks && several(chain.fallbacks, "fallback")]
          .filter(Boolean)
          .join(", "),
      ),
    ),
    h("ol", {}, links),
  );
}

/** The critical path by its steps, the longest first: a step may be waited for several times. */
function waitsOf(path) {
  const waits = new Map();
  for (const { step, name, duration_ms: long } of path) {
    const wait = waits.get(step) ?? { step, name, long: 0 };
    wait.long += long;
    waits.set(step, wait);
  }
  return [...waits.values()].filter((each) => each.long > 0).sort((a, b) => b.long - a.long);
}

const ARRIVED = {
  complete: "all have arrived",
  open: "none is missing so far",
  incomplete: "some are missing",
  unknown: "not numbered, so completeness is unknown",
};

/** The run as a whole. Question, answer and scores stay in their place: what is moved loses the focus. */
export class Overview {
  /** @param {{ onSelect: (step: string) => void, said: Element, scores: Element }} given */
  constructor({ onSelect, said, scores }) {
    this.onSelect = onSelect;
    this.parts = h("div", { class: "parts" });
    this.again = h("div", { class: "parts" });
    this.owners = h("div", { class: "parts" });
    this.element = h(
      "div",
      { class: "details" },
      h("h2", { class: "hidden-visually" }, "The run as a whole"),
      said,
      this.parts,
      this.again,
      scores,
      this.owners,
    );
  }

  show(run, replayable) {
    replace(this.parts, ...partsOf(run, { onSelect: this.onSelect }).filter(Boolean));
    replace(this.again, ...replaySections(replayable).filter(Boolean));
    replace(this.owners, ownersOf(run));
  }
}

/** Chains of attempts, agents, and what took longest. */
function partsOf(run, { onSelect }) {
  const { summary, document } = run;
  const longest = waitsOf(summary.critical_path ?? []).slice(0, 6);
  const agents = new Map();
  for (const step of run.steps) {
    if (step.kind !== "agent") continue;
    const sum = agents.get(step.name) ?? { time: 0, times: 0, cost: 0, failed: 0 };
    sum.time += step.duration_ms ?? 0;
    sum.open ||= step.open;
    sum.times += 1;
    sum.cost += step.cost_usd ?? 0;
    sum.failed += step.status === "failed" ? 1 : 0;
    agents.set(step.name, sum);
  }
  return [
    (document.chains ?? []).length > 0 &&
      h(
        "section",
        {},
        h("h3", { class: "quiet" }, "Retries and fallbacks"),
        document.chains.slice(0, 20).map((chain) => chainLine(chain, { onSelect })),
      ),
    agents.size > 0 &&
      h(
        "section",
        {},
        h("h3", { class: "quiet" }, "Agents"),
        h(
          "table",
          { class: "grid tight" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Agent", "Calls", "Time", "Cost"].map((each, at) =>
                h("th", { scope: "col", class: at ? "number" : "" }, each),
              ),
            ),
          ),
          h(
            "tbody",
            {},
            [...agents]
              .slice(0, 40)
              .map(([name, sum]) =>
                h(
                  "tr",
                  {},
                  h(
                    "td",
                    {},
                    link(address("agent", [name]), agentName(name)),
                    sum.failed > 0 && h("span", { class: "bad" }, ` ${sum.failed} failed`),
                  ),
                  h("td", { class: "number" }, count(sum.times)),
                  h("td", { class: "number" }, sum.open ? (run.running ? "running" : "not ended") : duration(sum.time)),
                  h("td", { class: "number" }, sum.cost ? cost(sum.cost) : NONE),
                ),
              ),
          ),
        ),
      ),
    longest.length > 0 &&
      h(
        "section",
        {},
        h("h3", { class: "quiet" }, "What the run waited for"),
        h(
          "ol",
          { class: "waits" },
          longest.map((each) => {
            const part = each.long / run.length;
            const name = each.step ? plain(each.name) : "unrecorded time";
            const agent = run.byId.get(each.step)?.agent ?? "";
            return h(
              "li",
              {},
              h(
                "button",
                { type: "button", disabled: !each.step, on: { click: () => onSelect(each.step) } },
                h("span", { class: "wait-bar", vars: { width: `${Math.min(100, part * 100)}%` } }),
                h(
                  "span",
                  { class: "wait-name", title: name },
                  name,
                  agent && agent !== each.name && h("span", { class: "quiet" }, ` in ${plain(agent)}`),
                ),
                h("span", { class: "quiet" }, `${duration(each.long)} · ${Math.round(part * 100)} %`),
              ),
            );
          }),
        ),
      ),
  ];
}

/** Session, user and other runs. */
function ownersOf({ summary, document }) {
  return h(
    "section",
    {},
    h("h3", { class: "quiet" }, "Belongs to"),
    h(
      "p",
      { class: "belongs" },
      document.session_id &&
        h("span", {}, "Session ", link(address("session", [document.session_id]), plain(document.session_id))),
      document.user_id &&
        h("span", {}, "User ", link(address("runs", [], { user: document.user_id }), plain(document.user_id))),
      document.parent_trace_id &&
        h(
          "span",
          {},
          "Started by ",
          link(address("run", [document.parent_trace_id]), plain(document.parent_trace_id)),
        ),
      (summary.runs ?? []).length > 1 && h("span", {}, `${count(summary.runs.length)} runs are shown together`),
      h("span", {}, "Events: ", ARRIVED[summary.completeness?.verdict] ?? ARRIVED.unknown),
    ),
  );
}
