// View of the stored fleet replays, the newest first.

import { address as made } from "../shell/address.js";
import { ask } from "../shell/ask.js";
import { button, copyButton, h, link, toast } from "../shell/elements.js";
import { scrolled } from "../shell/pieces.js";
import { ago, clock, count, plain, share, shortId } from "../shell/words.js";

const COLUMNS = [
  ["Replay", ""],
  ["Result", ""],
  ["Commit", ""],
  ["Runs", "number"],
  ["Changed", "number"],
  ["Prompts", "number", "Runs in which only what models are asked has changed"],
  ["Inconclusive", "number"],
  ["Flaky", "number"],
  ["Coverage", "number", "Share of the runs whose verdict says something of the code"],
  ["When", "number"],
];
const COMMAND = "tracereel fleet run week.fleet --keep";

export async function show(place, _address, signal) {
  const body = h("tbody", {});
  const more = h("div", { class: "more" });

  async function read(before) {
    const query = new URLSearchParams({ limit: "50" });
    if (before) query.set("before", before);
    const { fleets, next } = await ask(`/v1/fleets?${query}`, { signal });
    body.append(...fleets.map(rowOf));
    more.replaceChildren(next ? button("Show more", () => read(next).catch(({ message }) => toast(message))) : "");
    return fleets.length;
  }

  const found = await read(null);
  const heads = COLUMNS.map(([title, kind, hint]) => h("th", { scope: "col", class: kind, title: hint }, title));
  place.replaceChildren(
    h(
      "div",
      { class: "page" },
      h("div", { class: "heading" }, h("h1", {}, "Fleet replays")),
      found
        ? scrolled(
            "Fleet replays",
            h("table", { class: "grid cards fleets" }, h("thead", {}, h("tr", {}, heads)), body),
          )
        : h(
            "section",
            { class: "state" },
            h("h2", {}, "No fleet replay is stored"),
            h("p", {}, "It executes many recorded runs with the code of a working tree. This stores one here:"),
            h("pre", {}, h("code", {}, COMMAND), copyButton(COMMAND)),
          ),
      more,
    ),
  );
}

function rowOf(fleet) {
  const { counts } = fleet;
  const number = (name, title, kind) =>
    h("td", { class: `number ${counts[name] ? kind : "quiet nothing"}`, "data-name": title }, count(counts[name] ?? 0));
  return h(
    "tr",
    {},
    h("td", { class: "cut" }, link(made("fleet", [fleet.fleet_id]), plain(fleet.name || shortId(fleet.fleet_id)))),
    h("td", {}, resultOf(fleet)),
    h("td", { class: "mono quiet" }, commitsOf(fleet)),
    h("td", { class: "number", "data-name": "Runs" }, count(fleet.runs)),
    number("changed", "Changed", "bad"),
    number("prompt_changed", "Prompts", "warn"),
    number("inconclusive", "Inconclusive", ""),
    number("flaky", "Flaky", ""),
    h("td", { class: "number", "data-name": "Coverage" }, share(fleet.coverage)),
    h("td", { class: "number quiet", title: clock(fleet.time) }, ago(fleet.time)),
  );
}

/** Whether the policy accepts a fleet replay. */
export function resultOf(fleet) {
  const [kind, sign, text] = fleet.passed ? ["success", "✓", "passed"] : ["failed", "✕", "failed"];
  const why = fleet.failures.map(plain).join("\n");
  return h("span", { class: `badge s-${kind}`, title: why || null }, h("i", { "aria-hidden": "true" }, sign), text);
}

/** The commit, and the revision that it was compared with. */
export function commitsOf({ commit, baseline }) {
  const texts = [commit && plain(commit).slice(0, 10), baseline && `against ${plain(baseline)}`].filter(Boolean);
  return texts.join(" ");
}
