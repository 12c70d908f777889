// Re-execution of a run: whether it is possible, the command, earlier replays, branches.

import { address } from "../shell/address.js";
import { copyButton, h, link } from "../shell/elements.js";
import { plain, shortId, clock, count } from "../shell/words.js";

const SAID = { yes: "replayable", partly: "partly replayable", no: "not replayable" };
const SIGNS = { yes: "↻", partly: "◐", no: "–" };

/** The badge beside the name of a run, or null if unknown. */
export function replayBadge(found) {
  if (!found) return null;
  const state = SAID[found.replayable] ? found.replayable : "no";
  return h(
    "span",
    {
      class: `replay-mark replay-${state}`,
      title: found.reasons.map(plain).join("\n") || `${count(found.calls)} recorded calls`,
    },
    h("i", { "aria-hidden": "true" }, SIGNS[state]),
    SAID[state],
  );
}

/** The sections about re-execution in the panel of a run. */
export function replaySections(found) {
  if (!found) return [];
  const replays = found.replays.filter((each) => !each.branch);
  return [
    h(
      "section",
      { class: "again" },
      h("h3", { class: "quiet" }, "Re-execute"),
      found.command ? commandLine(`${plain(found.command)} --endpoint ${location.origin}`) : null,
      h("p", {}, sentence(found)),
      found.reasons.length > 0 &&
        h(
          "ul",
          { class: "reasons" },
          found.reasons.slice(0, 8).map((each) => h("li", {}, plain(each))),
        ),
    ),
    replays.length > 0 &&
      h(
        "section",
        { class: "replays" },
        h("h3", { class: "quiet" }, "Replays"),
        h("ol", {}, replays.slice(-6).reverse().map((each) => replayLine(each, found.trace_id))),
      ),
    found.branches &&
      h(
        "section",
        { class: "branches" },
        h("h3", { class: "quiet" }, "Branches"),
        tree(found.branches, found.trace_id),
      ),
  ];
}

/** A command with a button that copies exactly the text shown. */
function commandLine(command) {
  const shown = h("code", {}, command.split(" ").map((word, at) => [at ? " " : "", h("span", {}, word)]));
  return h("div", { class: "command" }, shown, copyButton(() => shown.textContent, "Copy", "command"));
}

function sentence({ recorded, replayable, calls }) {
  if (!recorded) return "This run has no tape:";
  const number = `${count(calls)} ${calls === 1 ? "call" : "calls"}`;
  if (replayable === "yes")
    return `Its code runs in your process; ${number} to models and tools are served from the tape.`;
  return replayable === "partly"
    ? `${number} are on its tape, but not everything:`
    : "It was recorded, but cannot be re-executed:";
}

function replayLine(replay, id) {
  // A fleet replay stores the whole report; its divergences have no values.
  const report = replay.text ? plain(replay.text) : "";
  const first = report ? [] : (replay.divergences ?? []).slice(0, 5);
  const result = replay.identical
    ? "went as recorded"
    : replay.divergence_count
      ? `diverged ${count(replay.divergence_count)} ${replay.divergence_count === 1 ? "time" : "times"}`
      : "ended early";
  return h(
    "li",
    {},
    h(
      "div",
      {},
      h("b", { class: replay.identical ? "good" : "bad" }, result),
      h("span", { class: "quiet" }, ` ${clock(replay.time)} · ${plain(replay.mode)} · ${count(replay.served)} served`),
      replay.fleet && [" ", link(address("fleet", [replay.fleet], { run: id }), "Fleet replay")],
    ),
    report && h("pre", { class: "value" }, report),
    !replay.identical &&
      !report &&
      !first.length &&
      (replay.notes ?? []).slice(0, 3).map((each) => h("div", { class: "divergence" }, plain(each))),
    first.map((each) =>
      h(
        "div",
        { class: "divergence" },
        h(
          "div",
          {},
          h("b", {}, plain(each.kind)),
          each.position ? ` call ${count(each.position)}, ` : " ",
          plain(each.path),
        ),
        each.detail && h("div", {}, plain(each.detail)),
        each.differences?.length > 0 && h("pre", { class: "value" }, each.differences.map(plain).join("\n")),
        each.location && h("div", { class: "quiet" }, "at ", h("code", {}, plain(each.location))),
      ),
    ),
  );
}

function tree(node, here, parent = null) {
  const own = node.trace_id === here;
  const changes = (node.overrides ?? []).map(changeOf);
  return h(
    "ul",
    { class: "branch-tree" },
    h(
      "li",
      {},
      h(
        "div",
        { class: own ? "own" : null },
        own
          ? h("b", {}, plain(node.name ?? shortId(node.trace_id)))
          : link(address("run", [node.trace_id]), plain(node.name ?? shortId(node.trace_id))),
        h("code", { class: "quiet", title: node.trace_id }, shortId(node.trace_id)),
        own && h("span", { class: "quiet" }, "this run"),
        node.at && h("span", { class: "quiet" }, `from call ${count(node.at)} on`),
        parent && link(address("compare", [parent, node.trace_id]), "Compare"),
      ),
      changes.length > 0 && h("div", { class: "changes" }, changes),
      (node.branches ?? []).map((each) => tree(each, here, node.trace_id)),
    ),
  );
}

/** One override of a fork. */
export function changeOf(override) {
  const said = ["result", "raises", "chosen"].filter((name) => name in override).map((name) => [name, override[name]]);
  return h(
    "div",
    { class: "change" },
    h("b", {}, plain(String(override.target))),
    " ",
    [...said, ...Object.entries(override.arguments ?? {})].map(([name, value]) =>
      h("span", {}, `${plain(name)} = `, h("code", {}, plain(String(value))), " "),
    ),
  );
}
