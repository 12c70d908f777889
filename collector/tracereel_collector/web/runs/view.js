// View of the runs: list, facets and histogram, updated live.

import { change, go, here, rememberRuns } from "../shell/address.js";
import { ask, follow } from "../shell/ask.js";
import { button, h, paced } from "../shell/elements.js";
import { useKeys } from "../shell/shortcuts.js";
import { failure, noData } from "../shell/states.js";
import { count, several } from "../shell/words.js";
import { AskedReader } from "./asked.js";
import { showFacets } from "./facets.js";
import { showChips, viewsOf } from "./filters.js";
import { Histogram } from "./histogram.js";
import { RunList } from "./list.js";
import { FILTERS, PAGE, questionOf, readRuns } from "./parameters.js";
import { searchBar } from "./search_box.js";

/** Rows that are read at once, at most. */
const MOST = 500;
const COUNTED = "status,pipeline,agent,model,error,service";
const WIDE = ["7d", "30d"];
/** Refusals that another window or filter resolves. */
const CORRECTED = ["bad", "slow"];

export async function show(place, address, signal, begun) {
  const asked = new AskedReader(signal);
  const list = new RunList({
    saidOf: (id) => asked.of(id),
    onSort: (sort, order) => change({ sort, order }),
    onTick: () => drawAbove(),
  });
  const histogram = new Histogram((from, to) => change({ from, to }));
  const views = h("div");
  const facets = h("div");
  const aside = h("aside", { class: "facets", "aria-label": "Narrow down" }, facets, views);
  const above = h("div", { class: "above", role: "status" });
  const chips = h("div", { class: "chips" });
  const below = h("div", { class: "more" });
  const bar = searchBar({ toggleFacets: () => frame.classList.toggle("with-facets"), toggleLive, signal });
  const frame = h(
    "div",
    { class: "runs" },
    aside,
    h(
      "div",
      { class: "runs-main" },
      h("h1", { class: "hidden-visually" }, "Runs"),
      bar.element,
      chips,
      histogram.element,
      above,
      list.element,
      below,
    ),
  );
  let question = questionOf(address.query);
  let next = null;
  // Coming back restores the number of rows and the position of the run that was opened.
  const left = history.state?.left;
  let extra = left?.extra ?? 0;
  list.chosen = left?.run ?? null;
  let broken = false;
  /** Runs that are new and not shown yet: rows do not move by themselves. */
  let arrived = [];
  list.body.addEventListener("click", (event) => keep(event.target.closest("tr")?.dataset.run), { capture: true });

  async function readList({ more = false, begun: reading = null } = {}) {
    const changes = more && next ? { cursor: next } : { limit: Math.min(MOST, PAGE + extra) };
    const wanted = question;
    const answer = await (reading ?? readRuns(wanted, signal, changes));
    if (wanted !== question) return; // the answer is to another question than the one on screen
    next = answer.next;
    if (!more) {
      arrived = [];
      drawAbove();
    }
    if (more) extra += answer.traces.length;
    list.show(answer.traces, { append: more });
    readAsked(answer.traces);
    await explain();
  }

  /** Changes rows where they are and counts the runs that are new; an empty list is filled. */
  async function refresh() {
    if (!list.size) { await readList(); return; }
    const limit = Math.min(MOST, PAGE + extra + arrived.length);
    const wanted = question;
    const { traces, next: rest } = await readRuns(wanted, signal, { limit });
    if (wanted !== question) return;
    const last = traces.findLastIndex((run) => list.has(run.trace_id));
    arrived = (last < 0 ? traces : traces.slice(0, last)).filter((run) => !list.has(run.trace_id));
    list.refresh(traces, { whole: rest == null });
    readAsked(traces.filter((run) => list.has(run.trace_id)));
    drawAbove();
    if (!list.size) await readList();
  }

  function readAsked(runs) {
    const alone = runs.filter((run) => run.spans && !run.prompt && !run.answer);
    asked.read(alone.map((run) => ({ id: run.trace_id, state: run.ended_at })), (ids) => list.redraw(ids));
  }

  function drawAbove() {
    const [a, b] = list.ticked;
    const many = `${arrived.length >= MOST - PAGE ? `${count(arrived.length)} or more` : count(arrived.length)}`;
    above.replaceChildren(
      ...[
        arrived.length > 0 &&
          button(`${many} new ${arrived.length === 1 ? "run" : "runs"}`, () => guarded(showNew), { class: "arrived" }),
        a && !b && h("span", { class: "quiet" }, "1 run is selected; select another one to compare them"),
        b && button("Compare the two selected runs", () => go("compare", list.ticked), { class: "primary" }),
        a && button("Clear the selection", () => { for (const id of [...list.ticked]) list.tick(id, false); }),
      ].filter(Boolean),
    );
  }

  async function showNew() {
    await readList();
    scrollTo(0, 0);
  }

  function drawViews() {
    views.replaceChildren(viewsOf(question, drawViews));
  }

  async function readCounts() {
    const wanted = question;
    const answer = await readRuns(wanted, signal, { limit: 0, facets: COUNTED, histogram: 80 });
    if (wanted !== question) return;
    list.notice(answer.facets.agent.map(({ value }) => value));
    showFacets(facets, answer.facets, question);
    histogram.show(answer.histogram);
  }

  async function explain() {
    const filtered = FILTERS.some((name) => question.has(name)) || question.has("q");
    if (list.size) {
      below.replaceChildren(next ? button("Show more", () => guarded(() => readList({ more: true })))
        : `${several(list.size, "run")}, ${list.size === 1 ? "the only one" : "all there are"} in this window`);
    } else if (filtered) {
      below.replaceChildren(
        h("p", {}, "No run matches."),
        h(
          "p",
          { class: "acts" },
          button("Clear the filters", clear),
          !WIDE.includes(question.get("from")) &&
            button("Look in the last 7 days", () => change({ from: "7d", to: null })),
        ),
      );
    } else {
      const { traces } = await ask("/v1/traces?limit=1", { signal });
      if (traces.length)
        below.replaceChildren(
          h("p", {}, "No run began in this window."),
          button("Show the last 7 days", () => change({ from: "7d", to: null })),
        );
      else below.replaceChildren(noData());
      frame.classList.toggle("untouched", !traces.length);
    }
    frame.classList.toggle("empty", !list.size);
    if (list.size || filtered) frame.classList.remove("untouched");
  }

  /** `changed`: the query is another one, so the rows on screen are not its result. */
  async function guarded(act, { changed = false } = {}) {
    try {
      await act();
      if (broken) { broken = false; place.replaceChildren(frame); }
    } catch (error) {
      if (signal.aborted) return;
      if (error.kind === "away" && list.size && !changed) return; // the bar shows it; the rows stay
      if (CORRECTED.includes(error.kind)) { tell(error); return; }
      broken = true;
      place.replaceChildren(failure(error, () => { broken = true; guarded(readAll); }));
    }
  }

  /** Shows a refused or slow query below the search bar, where it can be changed. */
  function tell(error) {
    next = null;
    list.show([]);
    if (!below.textContent.includes(error.message))
      below.replaceChildren(failure(error, error.kind === "slow" ? () => guarded(readAll) : null));
    frame.classList.add("empty");
    if (place.firstChild !== frame) place.replaceChildren(frame); // keeps the focus of the search field
  }

  function clear() {
    change(Object.fromEntries([...FILTERS, "q"].map((name) => [name, null])));
  }

  function drawQuestion() {
    rememberRuns(here().query);
    showChips(chips, question, { clear });
    bar.show(question);
    drawViews();
  }

  function readAll() {
    drawQuestion();
    return Promise.all([readList(), readCounts()]);
  }

  /** Saves the position in the history; links to the list start at its top. */
  function keep(run) {
    const row = list.rowOf(run);
    if (row) history.replaceState({ left: { run, extra, top: row.getBoundingClientRect().top } }, "");
  }

  function comeBack() {
    list.drawAll(); // rows that are not drawn are not as high as they will be
    const row = list.rowOf(left.run);
    if (row) scrollBy(0, row.getBoundingClientRect().top - left.top);
  }

  function toggleLive() {
    change({ live: here().query.get("live") === "off" ? null : "off" }, { replace: true });
  }

  const refreshList = paced(() => guarded(refresh), 1000);
  const refreshCounts = paced(() => guarded(readCounts), 5000);
  signal.addEventListener("abort", () => { refreshList.stop(); refreshCounts.stop(); });

  let tail = null;
  function followOrNot() {
    const wanted = question.get("live") !== "off" && !question.has("to");
    if (wanted && !tail) {
      tail = new AbortController();
      signal.addEventListener("abort", () => tail?.abort());
      let seen = 0;
      const noted = () => {
        if (document.hidden) return;
        refreshList.noted();
        refreshCounts.noted();
      };
      const onState = (state) => {
        bar.setLive(state);
        if (state === "live") noted(); // what came before the stream was open
      };
      follow("", () => { seen += 1; noted(); }, { signal: tail.signal, onState });
      const rate = setInterval(() => { bar.setRate(seen); seen = 0; }, 1000);
      tail.signal.addEventListener("abort", () => clearInterval(rate));
    } else if (!wanted) {
      tail?.abort();
      tail = null;
    }
    bar.setLive(wanted ? "live" : "off");
  }

  useKeys({
    j: ["Next run", () => list.move(1)],
    k: ["Run before", () => list.move(-1)],
    ArrowDown: ["Next run", () => list.move(1)],
    ArrowUp: ["Run before", () => list.move(-1)],
    Enter: ["Open the run", () => { keep(list.chosen); list.open(); }],
    "/": ["Search for words", () => bar.focus()],
    c: ["Select two runs to compare", () => pick()],
    l: ["Live on or off", toggleLive],
    x: ["Clear the filters", clear],
  });

  /** The second run that is picked with the key is compared with the first. */
  function pick() {
    if (!list.chosen) return;
    list.tick(list.chosen);
    if (list.ticked.length === 2) go("compare", list.ticked);
  }

  // The list is shown as soon as it is there; the counts, which take longer, come to it.
  drawQuestion();
  try {
    await readList({ begun: extra ? null : begun });
    place.replaceChildren(frame);
    if (left) comeBack();
    guarded(readCounts);
  } catch (error) {
    if (!CORRECTED.includes(error.kind)) throw error;
    tell(error);
  }
  followOrNot();
  return (changed) => {
    question = questionOf(changed.query);
    extra = 0;
    next = null;
    followOrNot();
    guarded(readAll, { changed: true });
  };
}
