// View of a run: waterfall, player and panel; a running run is reloaded as it grows.

import { address as made, change } from "../shell/address.js";
import { ask, follow, path } from "../shell/ask.js";
import { button, copyButton, h, link, paced } from "../shell/elements.js";
import { badge, replace } from "../shell/pieces.js";
import { useKeys } from "../shell/shortcuts.js";
import { failure } from "../shell/states.js";
import { clock, count, plain, several, shortId } from "../shell/words.js";
import { stepDetails } from "./details.js";
import { Events, linesOf } from "./events.js";
import { Run } from "./model.js";
import { chainLine, figures, overview, warnings } from "./overview.js";
import { Player } from "./player.js";
import { readEvents, readRun, readStep } from "./reading.js";
import { replayBadge, replaySections } from "./replayable.js";
import { Waterfall } from "./waterfall.js";

const FRESH_MS = 15 * 60_000;

export async function show(place, address, signal, begun) {
  const id = address.parts[0] ?? "";
  const where = path("v1", "traces", id);
  let run = new Run(await begun);
  let timeline = [];
  let ofStep = new Map();
  let eventsOfLong = null;
  let completeness = null;
  let replayable = null;

  const head = h("header", { class: "run-head" });
  const panel = h("div", { class: "panel-body", id: "panel", role: "tabpanel", tabindex: "-1" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "About the run", on: { keydown: turnTabs } });
  const waterfall = new Waterfall({ onSelect: select, onSeek: (moment) => { player.pause(); player.seek(moment); } });
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
      if (tab === "events") events.seek(moment);
      else events.moment = moment;
    },
  });
  const frame = h(
    "div",
    { class: "run" },
    head,
    h(
      "div",
      { class: "run-main" },
      h("section", { class: "stage", "aria-label": "Waterfall" }, waterfall.element, player.element),
      h("aside", { class: "panel" }, tabs, panel),
    ),
  );
  let tab = "run";
  let drawn = "";

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

  function show(next) {
    if (next !== "step") drawn = "";
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
    else
      replace(
        panel,
        overview(run, { onSelect: select, more: replaySections(replayable), entries: ofStep.get(run.steps[0]?.id) }),
      );
    panel.classList.toggle("fixed", tab === "events");
  }

  function showStep() {
    const step = run.byId.get(waterfall.selected);
    if (!step) { show("run"); return; }
    if (run.outlined && !ofStep.has(step.id)) {
      panel.replaceChildren(h("p", { class: "quiet" }, "Reading the step …"));
      readDetails(step)
        .then(() => {
          if (tab === "step" && waterfall.selected === step.id) showStep();
        })
        .catch((error) => {
          if (!signal.aborted && tab === "step" && waterfall.selected === step.id)
            panel.replaceChildren(failure(error, showStep));
        });
      return;
    }
    const entries = ofStep.get(step.id) ?? [];
    // A running run is reloaded often; an unchanged step is not redrawn under its reader.
    const now = `${step.id} ${step.status} ${step.duration_ms} ${step.tokens} ${step.cost_usd} ${entries.length}`;
    if (now === drawn && panel.firstChild?.classList.contains("details")) return;
    const another = drawn.split(" ", 1)[0] !== step.id;
    drawn = now;
    const chain = (run.document.chains ?? []).find(
      (each) => each.operation === step.id || each.links.some((one) => one.step === step.id),
    );
    replace(
      panel,
      stepDetails(step, entries, {
        onZoom: (one) => waterfall.zoom(one),
        onSeek: (moment) => {
          player.seek(moment);
          player.play();
        },
        chain: chain && chainLine(chain, { onSelect: select }),
      }),
    );
    if (another) panel.scrollTop = 0;
  }

  function select(step, { tab: wanted = "step" } = {}) {
    if (!run.byId.has(step)) return;
    waterfall.select(step);
    change({ step }, { silent: true });
    if (wanted) show(wanted);
    else show(tab);
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
        link("#/runs", "Runs", { class: "quiet" }),
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
          link(made("compare", [id]), "Compare", { title: "With another run" }),
          link(where, "JSON", { title: "The run as JSON: steps, chains, sums" }),
          link(path("v1", "replay", id), "Timeline", { title: "Its events in order, as JSON" }),
          link(path("v1", "traces", otel, "jaeger"), "Jaeger", {
            title: "The trace in Jaeger, or as its API has it where no Jaeger is known",
          }),
        ),
      ),
      figures(run),
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
    if (run.outlined && run.steps[0] && !ofStep.has(run.steps[0].id)) {
      await readDetails(run.steps[0]);
      if (tab === "run") show("run");
    }
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
    await readEvents(id, (entries) => read.push(...entries), { signal });
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
    }, { signal });
  }

  async function readDetails(step) {
    ofStep.set(step.id, await readStep(id, step, signal));
  }

  function showFailure(error) {
    if (!signal.aborted) events.set([], plain(error.message));
  }

  async function readAgain() {
    try {
      run = new Run(await readRun(id, signal));
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
    Escape: ["Back to the waterfall", () => waterfall.rows.element.focus({ preventScroll: true })],
    u: ["Back to the runs", () => history.back()],
  });

  drawHead();
  show("run");
  place.replaceChildren(frame);
  waterfall.set(run);
  player.set(run, moments());
  const wanted = address.query.get("step");
  if (wanted && run.byId.has(wanted)) select(wanted);
  readRest().catch(showFailure);
  return ({ query }) => { const step = query.get("step"); if (step && step !== waterfall.selected) select(step); };
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
