// Table of runs. Existing rows are kept, so that a growing list does not flicker.
// Cells of new rows are drawn a few per frame, visible ones first, so that a new list does not freeze.

import { address, go, here } from "../shell/address.js";
import { h, link } from "../shell/elements.js";
import { badge, costWithUnpriced } from "../shell/pieces.js";
import { isEmpty, pieces, wantedOf } from "../shell/hits.js";
import { scoreLabels } from "../shell/scores.js";
import {
  NONE, apart, clock, colourOf, compact, confidence, count, duration, errorName, plain,
  useColours,
} from "../shell/words.js";
import { MOST_EXECUTIONS } from "./parameters.js";

const MOST_ERRORS = 2;
const KNOWN = new Set(["failed", "cancelled", "running"]);
const ROW = 44;
const PER_FRAME = 6;
/** New rows are highlighted if there are at most this many. */
const MOST_POINTED_OUT = 5;
const COLUMNS = [
  ["c-tick", "", null, "Select two runs to compare them"],
  ["c-status", "Status", null, "How it ended, and what went wrong"],
  ["c-run", "Run"],
  ["c-agents", "Agents", null, "One block for each execution of an agent, in order; those that failed are marked red"],
  ["c-time", "Began", "started_at"],
  ["c-num c-duration", "Duration", "duration_ms"],
  ["c-num c-cost", "Cost", "cost_usd", "Reported by its calls, or calculated from the price table"],
  ["c-num c-tokens", "Tokens", "tokens", "Of all its model calls"],
  ["c-num c-confidence", "Confidence", "confidence", "The lowest in the run"],
  ["c-small", "Errors", "errors", "Steps that failed"],
  ["c-small", "Retries", null, "Number of retries"],
  ["c-small", "Fallbacks", null, "Number of fallbacks to another agent"],
  ["c-scores", "Scores", null, "The newest scores of the run and its steps"],
];

export class RunList {
  /**
   * `saidOf` returns question and answer of a run that its row does not have; `onTick` is called with the ids of the
   * runs that are ticked.
   */
  constructor({ saidOf, onSort, onTick }) {
    this.saidOf = saidOf;
    this.onTick = onTick;
    this.ticked = [];
    this.agents = new Set();
    this.wanted = wantedOf("");
    this.rows = new Map();
    this.order = [];
    this.undrawn = [];
    this.chosen = null;
    this.onSort = onSort;
    this.head = h("tr");
    this.body = h("tbody", {
      on: {
        click: (event) => this.#click(event),
        change: (event) => this.tick(event.target.closest("tr").dataset.run, event.target.checked),
      },
    });
    this.element = h("table", { class: "grid runlist" }, h("thead", {}, this.head), this.body);
  }

  get size() {
    return this.order.length;
  }

  has(id) {
    return this.rows.has(id);
  }

  /** Agents that were seen in the list so far. */
  notice(names) {
    const before = this.agents.size;
    for (const name of names) this.agents.add(name);
    if (this.agents.size === before || !useColours(this.agents)) return;
    for (const known of this.rows.values()) known.drawn = null;
  }

  /** Changes the rows that are there and moves none; of a `whole` list, those that are no longer in it go. */
  refresh(runs, { whole }) {
    const at = new Map(runs.map((run) => [run.trace_id, run]));
    const kept = whole ? this.order.filter((id) => at.has(id)) : this.order;
    this.show(kept.map((id) => at.get(id) ?? this.rows.get(id).run));
  }

  show(runs, { append = false } = {}) {
    this.#showHead();
    this.wanted = wantedOf(here().query.get("q") ?? "");
    this.notice(runs.flatMap((run) => run.agents));
    const first = this.order.length === 0;
    const order = append ? [...this.order] : [];
    const inView = Math.max(0, Math.floor(-this.body.getBoundingClientRect().top / ROW));
    const arrived = [];
    for (const run of runs) {
      if (append && this.rows.has(run.trace_id)) continue;
      const text = JSON.stringify(run);
      const known = this.rows.get(run.trace_id);
      if (!known) {
        const row = h("tr", { "data-run": run.trace_id }, h("td", { colspan: COLUMNS.length }));
        this.rows.set(run.trace_id, { row, text, run, drawn: null });
        arrived.push(row);
      } else if (known.text !== text) Object.assign(known, { text, run });
      order.push(run.trace_id);
    }
    if (!first && !append && arrived.length <= MOST_POINTED_OUT) for (const row of arrived) row.classList.add("new");
    const kept = new Set(order);
    for (const [id, { row }] of this.rows) if (!kept.has(id)) { row.remove(); this.rows.delete(id); }
    this.#keepTicks(this.ticked.filter((id) => kept.has(id)));
    this.element.classList.toggle("with-scores", order.some((id) => this.rows.get(id).run.scores?.length));
    let at = this.body.firstElementChild;
    for (const id of order) {
      const { row } = this.rows.get(id);
      if (row === at) at = at.nextElementSibling;
      else this.body.insertBefore(row, at);
    }
    this.order = order;
    const changed = order.filter((id) => { const { text, drawn } = this.rows.get(id); return text !== drawn; });
    const place = new Map(order.map((id, at) => [id, (at - inView + order.length) % order.length]));
    this.undrawn = changed.sort((a, b) => place.get(a) - place.get(b));
    this.#draw();
    this.#choose(this.chosen, { scroll: false });
  }

  /** Draws the cells of a few rows; the rest in the next frames. */
  #draw() {
    cancelAnimationFrame(this.waiting);
    for (const id of this.undrawn.splice(0, PER_FRAME)) this.#fill(this.rows.get(id));
    if (this.undrawn.length) this.waiting = requestAnimationFrame(() => this.#draw());
  }

  /** Draws rows again whose question and answer have become known. */
  redraw(ids) {
    for (const id of ids) {
      const known = this.rows.get(id);
      if (!known) continue;
      known.drawn = null;
      this.undrawn.push(id);
    }
    this.#draw();
  }

  drawAll() {
    while (this.undrawn.length) this.#draw();
  }

  rowOf(id) {
    return this.rows.get(id)?.row;
  }

  #fill(known) {
    if (!known || known.drawn === known.text) return;
    const focused = known.row.contains(document.activeElement);
    const inBox = focused && document.activeElement.matches("input");
    known.row.replaceChildren(...this.#cellsOf(known.run));
    known.drawn = known.text;
    if (focused) known.row.querySelector(inBox ? "input" : "a").focus({ preventScroll: true });
  }

  #showHead() {
    const query = here().query;
    const sort = query.get("sort") ?? "started_at";
    const order = query.get("order") ?? "desc";
    const state = `${sort} ${order}`;
    if (this.headState === state) return;
    this.headState = state;
    this.head.replaceChildren(...COLUMNS.map(([name, title, column, hint]) => {
      if (!title) return h("td", { class: name, title: hint });
      if (!column) return h("th", { class: name, scope: "col", title: hint }, title);
      const current = column === sort;
      const turned = current && order === "desc" ? "asc" : "desc";
      return h(
        "th",
        {
          class: name,
          scope: "col",
          title: hint,
          "aria-sort": current ? (order === "desc" ? "descending" : "ascending") : null,
        },
        h(
          "button",
          { type: "button", on: { click: () => this.onSort(column, turned) } },
          title,
          current ? (order === "desc" ? " ↓" : " ↑") : "",
        ),
      );
    }));
  }

  #click(event) {
    const row = event.target.closest("tr");
    if (!row || event.target.closest("a, .c-tick") || String(getSelection())) return;
    this.#open(row.dataset.run);
  }

  #open(id) {
    go("run", [id], this.#passing());
  }

  /** What a run is searched for is passed on to it. */
  #passing() {
    return isEmpty(this.wanted) ? undefined : { q: here().query.get("q") };
  }

  /** Ticks a run or removes its tick; of three the first one loses it. */
  tick(id, on = !this.ticked.includes(id)) {
    this.#keepTicks([...this.ticked.filter((each) => each !== id), ...(on ? [id] : [])].slice(-2));
  }

  #keepTicks(ids) {
    if (String(ids) === String(this.ticked)) return;
    this.ticked = ids;
    for (const [id, { row }] of this.rows) {
      row.classList.toggle("picked", ids.includes(id));
      const box = row.querySelector(".c-tick input");
      if (box) box.checked = ids.includes(id);
    }
    this.onTick(ids);
  }

  move(by) {
    const at = this.order.indexOf(this.chosen);
    const to = at < 0 ? 0 : Math.min(this.order.length - 1, Math.max(0, at + by));
    this.#choose(this.order[to] ?? null, { scroll: true });
  }

  open() {
    if (this.chosen) this.#open(this.chosen);
  }

  #choose(id, { scroll }) {
    this.rows.get(this.chosen)?.row.classList.remove("chosen");
    this.chosen = id;
    const known = this.rows.get(id);
    if (!known) return;
    const { row } = known;
    row.classList.add("chosen");
    if (scroll) {
      this.#fill(known);
      row.querySelector("a").focus({ preventScroll: true });
      row.scrollIntoView({ block: "nearest" });
    }
  }

  #cellsOf(run) {
    return [
      h(
        "td",
        { class: "c-tick" },
        h(
          "label",
          {},
          h("input", {
            type: "checkbox",
            checked: this.ticked.includes(run.trace_id),
            "aria-label": `Select to compare: ${nameOf(run)}, ${clock(run.started_at)}`,
          }),
        ),
      ),
      statusOf(run),
      h(
        "td",
        { class: "c-run" },
        link(address("run", [run.trace_id], this.#passing()), nameOf(run), {
          class: "what",
          title: plain(run.trace_id),
        }),
        this.#said(run),
      ),
      h("td", { class: "c-agents" }, agentStrip(run)),
      h("td", { class: "c-time quiet", title: run.started_at }, clock(run.started_at)),
      h(
        "td",
        { class: "c-num c-duration" },
        run.status === "running" && !run.duration_ms ? NONE : duration(run.duration_ms),
      ),
      h(
        "td",
        { class: `c-num c-cost${run.cost_usd == null && !run.unpriced_tokens ? " unknown" : ""}` },
        costWithUnpriced(run),
      ),
      h("td", { class: "c-num c-tokens" }, compact(run.tokens || null)),
      h("td", { class: "c-num c-confidence" }, confidence(run.lowest_confidence)),
      trouble(run.errors, "error", "errors"),
      trouble(run.retries, "retry", "retries"),
      trouble(run.fallbacks, "fallback", "fallbacks"),
      h("td", { class: "c-scores" }, scoreLabels(run.scores, 3)),
    ];
  }

  /** The passage that was searched for, else what was asked and answered. */
  #said(run) {
    if (run.passage) {
      const text = plain(run.passage);
      return h("span", { class: "prompt passage", title: text },
        pieces(text, this.wanted).map(([piece, hit]) => (hit ? h("mark", {}, piece) : piece)));
    }
    const said = this.saidOf(run.trace_id) ?? { asked: run.prompt, answered: run.answer };
    const asked = plain(said.asked ?? (said.answered ? "" : run.trace_id));
    const answered = plain(said.answered ?? "");
    return h("span", { class: "prompt", title: [asked, answered].filter(Boolean).join("\n\n").slice(0, 600) },
      asked, answered && [h("span", { class: "arrow", "aria-label": ", answered: " }, " → "), answered]);
  }
}

function nameOf(run) {
  return plain(run.name ?? run.pipeline_type ?? run.trace_id);
}

/** Wide screens show only the number; narrow ones have no column heads and add the word. */
function trouble(value, one, more) {
  return h(
    "td",
    { class: `c-small ${value ? (one === "error" ? "bad" : "warn") : "zero"}` },
    count(value),
    h("span", { class: "word" }, ` ${value === 1 ? one : more}`),
  );
}

function statusOf(run) {
  const errors = [...new Set(run.error_types)].map(errorName);
  return h(
    "td",
    { class: "c-status" },
    badge(run.status),
    errors.length > 0 &&
      h(
        "span",
        { class: `why ${run.status === "success" ? "quiet" : "bad"}`, title: errors.join("\n") },
        errors.slice(0, MOST_ERRORS).join(", "),
        errors.length > MOST_ERRORS && ` +${errors.length - MOST_ERRORS}`,
      ),
  );
}

/** A coloured block per agent execution, in order; for runs of foreign spans one per agent. */
function agentStrip({ agents, executions = [] }) {
  const steps = executions.length ? executions : agents.map((agent) => ({ agent, status: "success" }));
  const shown = steps.slice(0, MOST_EXECUTIONS);
  const words = shown.map(({ agent, status }) => `${plain(agent)}${status === "success" ? "" : ` (${plain(status)})`}`);
  const colours = apart(agents);
  const more = steps.length > shown.length;
  if (more) words.push("and more");
  return h(
    "span",
    {
      class: "strip",
      role: "img",
      "aria-label": steps.length ? `Agents: ${words.join(", ")}` : "No agents",
      title: words.join("\n"),
    },
    shown.map(({ agent, status }) =>
      h("span", { class: KNOWN.has(status) ? `x-${status}` : null, vars: { "--agent": colourOf(agent, colours) } }),
    ),
    more && h("small", {}, "…"),
  );
}
