// Model of a run: steps with their parents, visible steps, and sums up to any moment.

/** Values computed once per response; steps get a few fields of their own. */
export class Run {
  constructor(document, { now = Date.now(), all = false } = {}) {
    this.document = document;
    this.outlined = Boolean(document.outline);
    this.steps = document.steps ?? stepsOf(document.outline);
    this.summary = document.summary;
    this.state = document.state;
    this.start = Date.parse(document.time);
    this.byId = new Map();
    const critical = new Map();
    for (const stretch of document.summary.critical_path ?? []) {
      if (!critical.has(stretch.step)) critical.set(stretch.step, []);
      critical.get(stretch.step).push(stretch);
    }
    const wasted = new Set(document.summary.wasted?.steps ?? []);
    let end = 0;
    const path = [];
    this.steps.forEach((step, index) => {
      step.index = index;
      step.begin = step.offset_ms ?? 0;
      step.open = step.duration_ms == null;
      step.finish = step.open ? null : step.begin + step.duration_ms;
      step.critical = critical.get(step.id);
      step.wasted = wasted.has(step.id);
      step.ownTokens = step.tokens ?? 0;
      step.ownCost = step.cost_usd ?? 0;
      path.length = step.depth;
      step.parent = path[step.depth - 1] ?? null;
      path[step.depth] = step;
      this.byId.set(step.id, step);
      end = Math.max(end, step.finish ?? step.begin);
    });
    if (!all) this.#numberOnlyRepeated();
    // Sums of a step include its children; its own share is the difference.
    for (const step of this.steps) {
      if (!step.parent) continue;
      step.parent.ownTokens -= step.tokens ?? 0;
      step.parent.ownCost -= step.cost_usd ?? 0;
    }
    if (this.running) end = Math.max(end, now - this.start);
    this.length = Math.max(end, 0.001);
    for (const step of this.steps) if (step.finish == null) step.finish = this.length;
    this.#sums();
  }

  /** A first attempt has a number only if there is a second one. */
  #numberOnlyRepeated() {
    const place = ({ parent, name }) => `${parent?.id} ${name}`;
    const repeated = new Set(this.steps.filter(({ attempt }) => attempt > 1).map(place));
    for (const step of this.steps) if (step.attempt === 1 && !repeated.has(place(step))) step.attempt = undefined;
  }

  get running() {
    return this.state === "running";
  }

  #sums() {
    const ended = this.steps.filter((step) => !step.open).sort((a, b) => a.finish - b.finish);
    this.ends = Float64Array.from(ended, (step) => step.finish);
    this.tokensBy = new Float64Array(ended.length);
    this.costBy = new Float64Array(ended.length);
    let tokens = 0, cost = 0;
    ended.forEach((step, index) => {
      this.tokensBy[index] = tokens += Math.max(0, step.ownTokens);
      this.costBy[index] = cost += Math.max(0, step.ownCost);
    });
    this.begins = Float64Array.from(this.steps, (step) => step.begin).sort();
  }

  /** Sums at a moment: tokens and cost of what had ended, and how many steps were going on. */
  at(moment) {
    const ended = upTo(this.ends, moment);
    const begun = upTo(this.begins, moment);
    return {
      tokens: ended ? this.tokensBy[ended - 1] : 0,
      cost: ended ? this.costBy[ended - 1] : 0,
      ended, begun, going: begun - ended,
    };
  }

  /** The steps to be shown, in order, without those below folded ones. */
  visible(folded) {
    if (!folded.size) return this.steps;
    const shown = [];
    let below = Infinity;
    for (const step of this.steps) {
      if (step.depth > below) continue;
      below = folded.has(step.id) ? step.depth : Infinity;
      shown.push(step);
    }
    return shown;
  }
}

/** Steps of an outline, which has a list for each field; all of one shape, which is what makes it quick. */
function stepsOf(outline) {
  const {
    depth,
    kind,
    name,
    status,
    agent,
    offset_ms,
    duration_ms,
    attempt,
    tokens,
    cost_usd,
    confidence,
    children,
    clock_shift_ms,
  } = outline;
  return outline.id.map((id, at) => ({
    id, depth: depth[at], kind: kind[at], name: name[at], status: status[at], agent: agent[at] || undefined,
    offset_ms: offset_ms[at], duration_ms: duration_ms[at] ?? undefined, attempt: attempt[at] ?? undefined,
    tokens: tokens[at] ?? undefined, cost_usd: cost_usd[at] ?? undefined, confidence: confidence[at] ?? undefined,
    children: children[at], clock_shift_ms: clock_shift_ms[at] ?? undefined,
  }));
}

/** How many of the sorted values are not above a limit. */
export function upTo(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
