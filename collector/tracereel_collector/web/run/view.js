// View of a run: waterfall, player and panel; a running run is reloaded as it grows.

import { ScoreBox } from "../content/scores.js";
import { QuestionAndAnswer } from "../content/summary.js";
import { address as made, change, runsAddress } from "../shell/address.js";
import { ask, follow, path } from "../shell/ask.js";
import { button, copyButton, h, link, paced } from "../shell/elements.js";
import { badge, replace } from "../shell/pieces.js";
import { collector, collectorKnown } from "../shell/collector.js";
import { scoreLabels } from "../shell/scores.js";
import { useKeys } from "../shell/shortcuts.js";
import { failure } from "../shell/states.js";
import { clock, count, plain, several, shortId, useColours } from "../shell/words.js";
import { StepDetails } from "./details.js";
import { Events, linesOf } from "./events.js";
import { Finder } from "./finder.js";
import { Run } from "./model.js";
import { chainLine, figures, Overview, warnings } from "./overview.js";
import { Player } from "./player.js";
import { allOf, readEvents, readRun, readStep } from "./reading.js";
import { replayBadge } from "./replayable.js";
import { splitter } from "./splitter.js";
import { Waterfall } from "./waterfall.js";

const FRESH_MS = 15 * 60_000;
const KEPT_AFTER_MS = 400;
/** On a screen this narrow, a step is read on all of it. */
const NARROW = matchMedia("(max-width: 700px)");

export async function show(place, address, signal, begun) {
  const id = address.parts[0] ?? "";
  const where = path("v1", "traces", id);
  let all = allOf(address.query);
  let run = new Run(await begun, { all });
  let timeline = [];
  let ofStep = new Map();
  let eventsOfLong = null;
  let completeness = null;
  let replayable = null;
  let scored = [];

  const head = h("header", { class: "run-head" });
  const panel = h("div", { class: "panel-body", id: "panel", role: "tabpanel", tabindex: "-1" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "About the run", on: { keydown: turnTabs } });
  const waterfall = new Waterfall({
    onSelect: select,
    onSeek: (moment) => { player.pause(); player.seek(moment); },
    onZoom: (from, to) => change({ zoom: zoomText(from, to) }, { silent: true }),
  });
  const finder = new Finder({
    id,
    run: () => run,
    panel,
    signal,
    onHit: (step) => select(step),
    onChange: () => {
      change({ q: finder.field.value.trim() }, { silent: true });
      waterfall.redraw();
    },
  });
  waterfall.isHit = (step) => finder.has(step);
  const events = new Events({
    onChoose: (line) => {
      player.pause();
      player.seek(line.at);
      if (line.step) select(line.step, { tab: null });
    },
  });
  const player = new Player({
    onPlay: () => {
      if (tab === "run") show("events");
    },
    onMoment: (moment) => {
      waterfall.seek(moment);
      keepMoment();
      if (tab === "events") events.seek(moment);
      else events.moment = moment;
    },
  });
  const details = new StepDetails({
    trace: id,
    signal,
    onZoom: (step) => {
      leave();
      waterfall.zoom(step);
    },
    onSeek: (moment) => {
      leave();
      player.seek(moment);
      player.play();
    },
  });
  const said = new QuestionAndAnswer({ trace: id, signal });
  const scores = new ScoreBox({ trace: id, signal });
  const whole = new Overview({ onSelect: select, said: said.element, scores: scores.element });
  const stage = h("section", { class: "stage", "aria-label": "Waterfall" }, waterfall.element, player.element);
  const back = button("‹ Back to the run", () => (pushed ? history.back() : leave()), { class: "back-to-run" });
  const main = h("div", { class: "run-main" });
  stage.prepend(finder.element);
  main.append(stage, splitter(main, signal), h("aside", { class: "panel" }, back, tabs, panel));
  const frame = h("div", { class: "run" }, head, main);
  let tab = "run";
  let momentTimer;
  let pushed = false;

  /** On a phone the panel takes the whole screen; Back, of the page or of the phone, returns to the run. */
  function enter() {
    frame.classList.add("reading");
    for (const each of [head, stage]) each.inert = true;
    panel.focus({ preventScroll: true });
  }

  function leave() {
    if (!frame.classList.contains("reading")) return;
    frame.classList.remove("reading");
    pushed = false;
    for (const each of [head, stage]) each.inert = false;
    waterfall.rows.element.focus({ preventScroll: true });
    change({ step: null }, { silent: true });
  }

  /** Left and right go from tab to tab, as everywhere. */
  function turnTabs(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const all = [...tabs.querySelectorAll("button:not(:disabled)")];
    const to = all[(all.indexOf(document.activeElement) + by + all.length) % all.length];
    to.focus();
    to.click();
  }

  function drawTabs() {
    const many = run.outlined ? run.summary.total_events : timeline.length;
    const known = many ? `Events ${count(many)}` : "Events";
    replace(
      tabs,
      ...[
        ["run", "Run"],
        ["step", "Step"],
        ["events", known],
      ].map(([name, text]) =>
        button(
          text,
          () => {
            show(name);
          },
          {
            role: "tab",
            "aria-selected": String(name === tab),
            "aria-controls": "panel",
            disabled: name === "step" && !waterfall.selected,
          },
        ),
      ),
    );
  }

  /** The playhead is in the address too, where browsers limit the changes. */
  function keepMoment() {
    clearTimeout(momentTimer);
    momentTimer = setTimeout(() => {
      if (signal.aborted || player.playing) return;
      change({ at: player.moment >= run.length ? null : Number(player.moment.toFixed(3)) }, { silent: true });
    }, KEPT_AFTER_MS);
  }

  function keepTab() {
    const usual = waterfall.selected ? "step" : "run";
    change({ tab: tab === usual ? null : tab }, { silent: true });
  }

  function show(next) {
    tab = next;
    drawTabs();
    if (tab === "events") {
      if (panel.firstChild !== events.element) {
        panel.replaceChildren(events.element);
        events.rows.redraw();
      }
      events.seek(player.moment);
      if (run.outlined) eventsOfLong ??= readLong().catch(showFailure);
    } else if (tab === "step") showStep();
    else showRun();
    keepTab();
    panel.classList.toggle("fixed", tab === "events");
  }

  function showRun() {
    const root = run.steps[0];
    if (root) said.show(root.id, `${root.status} ${root.duration_ms}`, root.outcome);
    scores.show({});
    whole.show(run, replayable);
    if (panel.firstChild !== whole.element) panel.replaceChildren(whole.element);
  }

  function showStep() {
    const step = run.byId.get(waterfall.selected);
    if (!step) { show("run"); return; }
    const another = details.step?.id !== step.id;
    const isRead = !run.outlined || ofStep.has(step.id);
    if (!isRead) {
      readDetails(step)
        .then(() => {
          if (tab === "step" && waterfall.selected === step.id) showStep();
        })
        .catch((error) => {
          if (!signal.aborted && tab === "step" && waterfall.selected === step.id)
            panel.replaceChildren(failure(error, showStep));
        });
    }
    const chain = (run.document.chains ?? []).find(
      (each) => each.operation === step.id || each.links.some((one) => one.step === step.id),
    );
    details.show(step, isRead ? (ofStep.get(step.id) ?? []) : null, chain && chainLine(chain, { onSelect: select }));
    if (panel.firstChild !== details.element) panel.replaceChildren(details.element);
    if (another) panel.scrollTop = 0;
  }

  function select(step, { tab: wanted = "step" } = {}) {
    if (!run.byId.has(step)) return;
    waterfall.select(step);
    finder.show(step);
    // A step that covers the screen is a place of its own, which the phone's Back leaves.
    const covers = wanted === "step" && NARROW.matches && !frame.classList.contains("reading");
    const before = location.hash;
    change({ step }, { silent: !covers });
    if (wanted) show(wanted);
    else show(tab);
    if (!covers) return;
    pushed = location.hash !== before;
    enter();
  }

  function drawHead() {
    const name = plain(run.document.name ?? run.steps[0]?.name ?? id);
    document.title = `${name} · tracereel`;
    const otel = run.document.otel_trace_ids?.[0] ?? id;
    replace(
      head,
      h(
        "div",
        { class: "run-title" },
        link(runsAddress(), "Runs", { class: "quiet" }),
        h("span", { class: "quiet", "aria-hidden": "true" }, "/"),
        h("h1", {}, name),
        badge(run.state),
        replayBadge(replayable),
        h("code", { class: "quiet", title: plain(id) }, shortId(id)),
        copyButton(plain(id), "Copy id"),
        h("span", { class: "quiet", title: `Began ${run.document.time}` }, clock(run.document.time)),
        h(
          "span",
          { class: "end" },
          button("All attempts", () => change({ attempts: all ? null : "all" }), {
            class: "small",
            "aria-pressed": String(all),
            title: "Show also attempts, retries and fallbacks in which nothing was retried or replaced",
          }),
          link(made("compare", [id]), "Compare", { title: "With another run" }),
          link(where, "JSON", { title: "The run as JSON: steps, chains, sums" }),
          link(path("v1", "replay", id), "Timeline", { title: "Its events in order, as JSON" }),
          collector.jaeger && link(path("v1", "traces", otel, "jaeger"), "Jaeger", { title: "The trace in Jaeger" }),
        ),
      ),
      h("div", { class: "run-facts" }, figures(run), scoreLabels(scored)),
      ...warnings(run, completeness, { onSelect: select }),
    );
  }

  function moments() {
    const all = new Set();
    for (const step of run.steps) { all.add(step.begin); if (!step.open) all.add(step.finish); }
    for (const { step } of timeline) if (step) all.add(Math.max(0, step.offset_ms ?? 0));
    return Float64Array.from(all).sort();
  }

  /** Loads events after the first drawing; those of a long run only on demand. */
  async function readRest() {
    // The ledger of a long complete run is slow and adds little.
    const whole = run.outlined && run.summary.completeness?.verdict === "complete";
    const asked = [!whole && `${where}/completeness`, `${where}/replayable`];
    [completeness, replayable] = await Promise.all(
      asked.map((each) => (each ? ask(each, { signal }).catch(() => null) : null)),
    );
    drawHead();
    if (tab === "run") show("run");
    if (run.outlined) { drawTabs(); return; }
    const read = [];
    await readEvents(id, (entries) => read.push(...entries), { signal, all });
    timeline = read;
    ofStep = grouped(read);
    events.set(linesOf(read, completeness), several(read.length, "event"));
    drawTabs();
    if (tab === "step") showStep();
    else if (tab === "run") show("run");
    player.set(run, moments());
  }

  /** Keeps only the lines of a long run and draws each page as it arrives. */
  async function readLong() {
    let many = 0;
    events.set([], "");
    await readEvents(id, (entries, last) => {
      many += entries.length;
      events.add(linesOf(entries, completeness), last ? several(many, "event") : `${count(many)} read …`);
    }, { signal, all });
  }

  async function readDetails(step) {
    ofStep.set(step.id, await readStep(id, step, signal));
  }

  function showFailure(error) {
    if (!signal.aborted) events.set([], plain(error.message));
  }

  async function readAgain() {
    try {
      run = new Run(await readRun(id, signal, all), { all });
      if (run.outlined) {
        ofStep.clear();
        if (tab !== "events") eventsOfLong = null; // not while they are on screen
        if (tab === "step" && run.byId.has(waterfall.selected)) await readDetails(run.byId.get(waterfall.selected));
      }
      waterfall.set(run, { keepZoom: true });
      player.set(run, player.moments);
      drawHead();
      if (tab !== "events") show(tab);
      await readRest();
    } catch (error) {
      if (!signal.aborted && !error.kind) throw error;
    }
  }

  const fresh = run.running || run.state === "unknown" || Date.now() - Date.parse(run.document.time) < FRESH_MS;
  if (fresh) {
    const again = paced(readAgain, run.steps.length > 5000 ? 5000 : 800);
    follow(new URLSearchParams({ trace: id }), () => again.noted(), { signal });
    const beat = setInterval(() => { if (run.running && !document.hidden) again(); }, 10_000);
    signal.addEventListener("abort", () => { again.stop(); clearInterval(beat); });
  }
  signal.addEventListener("abort", () => { player.pause(); waterfall.stop(); events.stop(); });

  useKeys({
    Space: ["Play or pause", () => player.toggle()],
    ".": ["Next event", () => player.step(1)],
    ",": ["Event before", () => player.step(-1)],
    Home: [
      "To the beginning",
      () => {
        player.pause();
        player.seek(0);
      },
    ],
    End: [
      "To the end",
      () => {
        player.pause();
        player.seek(run.length);
      },
    ],
    "/": ["Find in the run", () => finder.focus()],
    n: ["Next hit", () => finder.next(1)],
    p: ["Hit before", () => finder.next(-1)],
    x: ["Next error", () => finder.nextError(1)],
    s: ["Give a score to what is open", () => openScoreForm()],
    j: ["Next step", () => waterfall.move(1)],
    k: ["Step before", () => waterfall.move(-1)],
    ArrowDown: ["Next step", () => waterfall.move(1)],
    ArrowUp: ["Step before", () => waterfall.move(-1)],
    ArrowRight: ["Unfold", () => waterfall.turn(true)],
    ArrowLeft: ["Fold", () => waterfall.turn(false)],
    z: ["Zoom on the step", () => waterfall.zoom(run.byId.get(waterfall.selected))],
    0: ["Zoom out to the whole run", () => waterfall.zoom(null)],
    Enter: [
      "Read the step",
      () => {
        if (waterfall.selected) show("step");
        panel.focus();
      },
    ],
    e: [
      "Events",
      () => {
        show("events");
        events.rows.element.focus({ preventScroll: true });
      },
    ],
    r: ["The run as a whole", () => show("run")],
    Escape: [
      "Back to the waterfall",
      () => {
        leave();
        waterfall.rows.element.focus({ preventScroll: true });
      },
    ],
    u: ["Back to the runs", () => history.back()],
  });

  /** The panel has a form for what it shows: the run or a step. */
  function openScoreForm() {
    if (tab === "events") show(waterfall.selected ? "step" : "run");
    (tab === "step" ? details.scores : scores).open();
  }

  /** Shows what a link has: zoom, playhead, step, tab, search. */
  function restore(query) {
    const [from, to] = (query.get("zoom") ?? "").split("-").map(Number);
    if (query.has("zoom")) waterfall.zoomTo(from, to);
    const at = Number(query.get("at"));
    if (query.has("at") && at >= 0) player.seek(at);
    const step = query.get("step");
    const tabs = ["run", "step", "events"];
    if (step && run.byId.has(step)) select(step, { tab: tabs.includes(query.get("tab")) ? query.get("tab") : "step" });
    else if (tabs.includes(query.get("tab"))) show(query.get("tab"));
    finder.show(waterfall.selected);
    if (query.get("q")) finder.find(query.get("q"), { go: !step });
  }

  /** The newest scores of the run and its steps, for the head. */
  async function readScores() {
    const query = new URLSearchParams({ trace_id: id, limit: "50" });
    const answer = await ask(`/v1/scores?${query}`, { signal }).catch(() => null);
    scored = (answer?.scores ?? []).map((score) => ({
      ...score,
      of_step: Boolean(score.span_id || score.execution_id),
    }));
    if (scored.length && !signal.aborted) drawHead();
  }

  useColours(run.steps.flatMap((step) => step.agent ?? []));
  drawHead();
  show("run");
  place.replaceChildren(frame);
  waterfall.set(run);
  player.set(run, moments());
  restore(address.query);
  readRest().catch(showFailure);
  readScores();
  collectorKnown.then(() => { if (!signal.aborted) drawHead(); });
  return ({ query }) => {
    if (allOf(query) !== all) {
      all = allOf(query);
      readAgain();
    }
    const step = query.get("step");
    const sought = query.get("q") ?? "";
    if (sought !== finder.field.value.trim()) finder.find(sought, { go: !step });
    if (!step) leave();
    else if (step !== waterfall.selected || tab !== "step") select(step);
  };
}

function grouped(entries) {
  const groups = new Map();
  for (const entry of entries) {
    const key = entry.step?.id;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(entry);
  }
  return groups;
}

/** A zoom as a link has it, in milliseconds. */
function zoomText(from, to) {
  return to == null ? null : `${Number(from.toFixed(3))}-${Number(to.toFixed(3))}`;
}
