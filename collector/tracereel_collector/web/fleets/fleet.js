// View of one fleet replay: verdicts, causes, and a recorded run beside its replay.

import { address as made } from "../shell/address.js";
import { ask, path } from "../shell/ask.js";
import { h, link } from "../shell/elements.js";
import { badge, facts, notice } from "../shell/pieces.js";
import { clock, cost, count, duration, plain, several, share, shortId } from "../shell/words.js";
import { readRun } from "../run/reading.js";
import { commitsOf, resultOf } from "./view.js";

const MOST_STEPS = 300;
const MOST_NAMES = 12;
/** Kinds of causes whose word is that of a verdict. */
const SAID = { changed: "other arguments", same: "as recorded" };
const KINDS = [
  ["same", "Same", "good"],
  ["changed", "Changed", "bad"],
  ["prompt_changed", "Prompts changed", "warn", "Only what models are asked differs"],
  ["inconclusive", "Inconclusive", "", "The replay says nothing of the code"],
  ["flaky", "Flaky", "", "Repetitions came to different verdicts"],
];

export async function show(place, address, signal) {
  const id = address.parts[0] ?? "";
  const fleet = await ask(path("v1", "fleets", id), { signal });

  async function draw({ query }) {
    const chosen = query.get("run");
    const pair = chosen ? await pairOf(fleet, chosen, signal) : null;
    place.replaceChildren(page(fleet, chosen, pair));
    if (pair) pair.scrollIntoView({ block: "nearest" });
  }
  await draw(address);
  return draw;
}

function page(fleet, chosen, pair) {
  const { counts, flaky } = fleet;
  const at = fleet.groups.findIndex((group) => group.runs.includes(chosen));
  const stays = flaky.some((each) => each.trace_id === chosen);
  return h(
    "div",
    { class: "page fleet" },
    h(
      "div",
      { class: "heading" },
      h("h1", {}, plain(fleet.name || "Fleet replay")),
      resultOf(fleet),
      h("span", { class: "quiet" }, [commitsOf(fleet), clock(fleet.time)].filter(Boolean).join(" · ")),
      h("span", { class: "end" }, link("#/fleets", "All fleet replays")),
    ),
    facts([
      ["Runs", count(fleet.runs)],
      ...KINDS.map(([name, title, kind, hint]) => [
        title, count(counts[name] ?? 0), hint, counts[name] ? kind : "quiet",
      ]),
      ["Coverage", share(fleet.coverage), "Share of the runs whose verdict says something of the code"],
    ]),
    fleet.failures.map((each) => notice("bad", plain(each))),
    fleet.fresh_processes.map((each) => h("p", { class: "quiet" }, `A fresh process for each run: ${plain(each)}`)),
    fleet.network.map((each) => h("p", { class: "quiet" }, `No network namespace: ${plain(each)}`)),
    pair && at < 0 && !stays && pair,
    fleet.groups.map((group, number) => groupOf(fleet, group, number + 1, chosen, number === at ? pair : null)),
    fleet.group_count > fleet.groups.length &&
      h("p", { class: "quiet" }, `${several(fleet.group_count - fleet.groups.length, "more cause")} were not stored.`),
    flaky.length > 0 &&
      h(
        "article",
        { class: "cause" },
        h("h2", {}, `${several(flaky.length, "flaky run")}, set aside`),
        runLinks(fleet, flaky.map((each) => each.trace_id), chosen),
        stays && pair,
      ),
    !fleet.groups.length && !flaky.length && h("p", { class: "quiet" }, "Every run went as recorded."),
  );
}

function groupOf(fleet, group, number, chosen, pair) {
  const { kind, place, argument, code } = group.cause;
  const names = (given) =>
    Object.entries(given).slice(0, MOST_NAMES).map(([name, runs]) => `${plain(name)} (${count(runs)})`).join(", ");
  const rows = [
    ["Place", place && h("code", {}, plain(place))],
    ["Argument", argument && h("code", {}, plain(argument))],
    ["Line", code && h("code", {}, plain(code))],
    ["Agents", names(group.agents)],
    ["Pipelines", names(group.pipelines)],
    ["Prompts", promptsOf(group.cost)],
    ["Then", group.following.map((each) => h("div", {}, `${causeText(each)} (${several(each.count, "run")})`))],
  ].filter(([, value]) => value && (!Array.isArray(value) || value.length));
  const ids = [group.example, ...group.runs.filter((each) => each !== group.example)];
  return h(
    "article",
    { class: `cause v-${KINDS.some(([name]) => name === group.verdict) ? group.verdict : "none"}` },
    h("h2", {}, `${number}. ${several(group.count, "run")} ${wordsOf(group.verdict)}: ${SAID[kind] ?? plain(kind)}`),
    h("dl", {}, rows.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value)))),
    runLinks(fleet, ids, chosen, group.count),
    pair,
  );
}

function wordsOf(verdict) {
  return plain(verdict).replaceAll("_", " ");
}

/** What changed prompts cost, if their tokens are known. */
function promptsOf(found) {
  if (!found?.tokens) return null;
  const tokens = `${count(found.tokens)} → ${count(found.new_tokens)} tokens`;
  const prices = found.recorded_usd == null ? [] : [`${cost(found.recorded_usd)} → ${cost(found.new_usd)}`];
  return [`${several(found.calls, "model call")}: ${tokens}`, ...prices].join(", ");
}

function causeText(cause) {
  return [cause.kind, cause.place, cause.argument, cause.code].filter(Boolean).map(plain).join(" · ");
}

/** The first runs, and the others folded. */
function runLinks(fleet, ids, chosen, total = ids.length) {
  const shown = Math.min(8, ids.length);
  const one = (id) =>
    h(
      "li",
      {},
      link(made("fleet", [fleet.fleet_id], { run: id }), shortId(id), {
        title: plain(id), class: "mono", "aria-current": id === chosen ? "true" : null,
      }),
    );
  const rest = ids.slice(shown);
  return [
    h("ul", { class: "fleet-runs" }, ids.slice(0, shown).map(one)),
    rest.length > 0 &&
      h(
        "details",
        { open: rest.includes(chosen) },
        h("summary", { class: "quiet" }, `${count(rest.length)} more`),
        h("ul", { class: "fleet-runs" }, rest.map(one)),
      ),
    total > ids.length &&
      h("p", { class: "quiet" }, `${several(total - ids.length, "more run")}: see the file of verdicts`),
  ];
}

/** A recorded run beside the report of its replay. */
async function pairOf(fleet, id, signal) {
  const [run, report] = await Promise.allSettled([
    readRun(id, signal),
    ask(path("v1", "traces", id, "replayable"), { signal }),
  ]);
  signal.throwIfAborted();
  const replays = report.status === "fulfilled" ? report.value.replays : [];
  const replay = replays.findLast((each) => each.fleet === fleet.fleet_id);
  return h(
    "div",
    { class: "fleet-pair" },
    h(
      "section",
      { "aria-label": "Recorded" },
      h("h3", {}, "Recorded ", link(made("run", [id]), "Open the run")),
      run.status === "fulfilled" ? stepsOf(run.value, replay) : h("p", { class: "quiet" }, plain(run.reason.message)),
    ),
    h(
      "section",
      { "aria-label": "Replayed" },
      h("h3", {}, "Replayed ", replay && h("span", { class: "quiet" }, wordsOf(replay.verdict))),
      replay
        ? h("pre", { class: "value", tabindex: "0" }, plain(replay.text || "There is no report."))
        : h("p", { class: "quiet" }, "Its report is not stored: there were too many, or the run was deleted."),
    ),
  );
}

function stepsOf(run, replay) {
  const places = new Set((replay?.divergences ?? []).map((each) => plain(each.path)));
  const names = [];
  const rows = run.steps.slice(0, MOST_STEPS).map((step) => {
    names.length = step.depth;
    names.push(plain(step.name));
    const here = places.has(names.join(" / "));
    return h(
      "li",
      { class: here && "differs", vars: { "--depth": step.depth }, title: here && "The replay differs here" },
      badge(step.status),
      h("span", {}, plain(step.name)),
      h("span", { class: "quiet" }, plain(step.kind)),
      h("span", { class: "quiet end" }, duration(step.duration_ms)),
    );
  });
  const left = run.steps.length - rows.length;
  return [h("ol", { class: "fleet-steps" }, rows), left > 0 && h("p", { class: "quiet" }, several(left, "more step"))];
}
