// View of the agents: executions, errors, latency and cost of each.

import { address as made, change, here } from "../shell/address.js";
import { ask } from "../shell/ask.js";
import { h, link } from "../shell/elements.js";
import { agentName, choice, costWithUnpriced, replace, scrolled } from "../shell/pieces.js";
import { noData } from "../shell/states.js";
import { NONE, compact, confidence, count, duration, plain, several, share, useColours } from "../shell/words.js";
import { sparkline } from "./plots.js";

export const EVERY_MS = 10_000;
export const WINDOWS = [["15m", "15 m"], ["1h", "1 h"], ["6h", "6 h"], ["24h", "24 h"], ["7d", "7 d"], ["30d", "30 d"]];
const COLUMNS = [
  ["Agent", ""],
  ["Activity", "", "Executions over the window, failed ones in red"],
  ["Executions", "number"],
  ["Errors", "number", "Share of executions that failed"],
  ["Retries", "number", "Share of executions"],
  ["Fallbacks", "number", "Number of fallbacks to another agent"],
  ["p50", "number", "Half of the executions took no longer"],
  ["p95", "number", "95 of 100 executions took no longer"],
  ["Confidence", "number", "On average"],
  ["Tokens", "number"],
  ["Cost", "number", "Reported by its calls, or calculated from the price table"],
];

export async function show(place, address, signal) {
  async function draw({ query }) {
    const from = query.get("from") ?? "1h";
    const { agents } = await ask(`/v1/agents?${new URLSearchParams({ from, points: "60" })}`, { signal });
    useColours(agents.map(({ agent }) => agent));
    replace(
      place,
      h(
        "div",
        { class: "page" },
        h(
          "div",
          { class: "heading" },
          h("h1", {}, "Agents"),
          h("span", { class: "quiet" }, `${count(agents.length)} in this window`),
          h(
            "span",
            { class: "end" },
            choice("Window of time", WINDOWS, from, (value) => change({ from: value })),
          ),
        ),
        agents.length
          ? scrolled(
              "Agents",
              h(
                "table",
                { class: "grid" },
                h(
                  "thead",
                  {},
                  h(
                    "tr",
                    {},
                    COLUMNS.map(([title, kind, hint]) => h("th", { scope: "col", class: kind, title: hint }, title)),
                  ),
                ),
                h(
                  "tbody",
                  {},
                  agents.map((agent) => rowOf(agent, from)),
                ),
              ),
            )
          : await nothing(signal),
      ),
    );
  }
  await draw(address);
  const beat = setInterval(() => { if (!document.hidden) draw(here()).catch(() => {}); }, EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(beat));
  return draw;
}

async function nothing(signal) {
  const { traces } = await ask("/v1/traces?limit=1", { signal });
  return traces.length
    ? h("p", { class: "state" }, "No agent ran in this window. A longer one may have some.")
    : noData();
}

function rowOf(agent, from) {
  const { executions, latency } = agent;
  return h(
    "tr",
    {},
    h(
      "td",
      { class: "cut", title: plain(agent.agent) },
      link(made("agent", [agent.agent], { from }), agentName(agent.agent)),
    ),
    h(
      "td",
      {},
      sparkline(
        agent.series.executions,
        agent.series.failed,
        `${several(executions, "execution")}, ${count(agent.failed)} failed`,
      ),
    ),
    h("td", { class: "number" }, count(executions)),
    h("td", { class: `number ${agent.failed ? "bad" : "quiet"}` }, share(agent.error_rate)),
    h(
      "td",
      { class: `number ${agent.retries ? "warn" : "quiet"}` },
      executions ? share(agent.retries / executions) : NONE,
    ),
    h("td", { class: `number ${agent.fallbacks ? "warn" : "quiet"}` }, count(agent.fallbacks)),
    h("td", { class: "number" }, duration(latency.p50_ms)),
    h("td", { class: "number" }, duration(latency.p95_ms)),
    h("td", { class: "number" }, confidence(agent.confidence.mean)),
    h("td", { class: "number" }, compact(agent.tokens || null)),
    h("td", { class: "number" }, costWithUnpriced(agent)),
  );
}
