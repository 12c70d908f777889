// View of one agent: figures over a window, and plots over time.

import { address as made, change, here } from "../shell/address.js";
import { ask, path } from "../shell/ask.js";
import { h, link } from "../shell/elements.js";
import { agentName, choice, costWithUnpriced, facts, replace } from "../shell/pieces.js";
import {
  compact, confidence, cost, count, duration, plain, priceRemedy, rate, several, share,
} from "../shell/words.js";
import { barsOverTime, linesOverTime, spread, tenths } from "./plots.js";
import { EVERY_MS, WINDOWS } from "./view.js";

export async function show(place, address, signal) {
  const name = address.parts[0] ?? "";
  async function draw({ query }) {
    const from = query.get("from") ?? "1h";
    const agent = await ask(`${path("v1", "agents", name)}?${new URLSearchParams({ from, points: "60" })}`, { signal });
    const { series } = agent;
    document.title = `${plain(name)} · tracereel`;
    replace(
      place,
      h(
        "div",
        { class: "page" },
        h(
          "div",
          { class: "heading" },
          link("#/agents", "Agents", { class: "quiet" }),
          h("span", { class: "quiet", "aria-hidden": "true" }, "/"),
          h("h1", {}, agentName(name)),
          link(made("runs", [], { agent: name, from }), "Runs"),
          agent.failed > 0 && link(made("runs", [], { agent: name, status: "failed", from }), "Failed runs"),
          h(
            "span",
            { class: "end" },
            choice("Window of time", WINDOWS, from, (value) => change({ from: value })),
          ),
        ),
        facts([
          ["Executions", count(agent.executions)],
          ["Rate", rate(agent.executions_per_minute), "Executions in a time, over the window"],
          ["Errors", share(agent.error_rate), "Share of executions that failed", agent.failed ? "bad" : ""],
          ["Retries", count(agent.retries), "Number of retries", agent.retries ? "warn" : ""],
          ["Fallbacks", count(agent.fallbacks), "Number of fallbacks to another agent", agent.fallbacks ? "warn" : ""],
          ["p50", duration(agent.latency.p50_ms), "Half of the executions took no longer"],
          ["p95", duration(agent.latency.p95_ms), "95 of 100 executions took no longer"],
          ["Confidence", confidence(agent.confidence.mean), "On average"],
          ["Model calls", compact(agent.model_calls)],
          ["Tool calls", compact(agent.tool_calls)],
          ["Tokens", compact(agent.tokens)],
          ["Cost", costWithUnpriced(agent), priceRemedy(agent)],
        ]),
        // An agent of which only calls were recorded still shows these.
        !agent.executions && !agent.model_calls && !agent.tool_calls
          ? h("p", { class: "state" }, "It did not run in this window. A longer one may have some of its executions.")
          : h(
              "div",
              { class: "plots" },
              plot(
                "Executions",
                "failed ones in red",
                barsOverTime(
                  series,
                  `${several(agent.executions, "execution")} over time, ${count(agent.failed)} failed`,
                  (value) => compact(value),
                ),
              ),
              plot(
                "Latency over time",
                "p50 and, in amber, p95",
                linesOverTime(
                  series,
                  ["p50_ms", "p95_ms"],
                  `Latency over time: p50 ${duration(agent.latency.p50_ms)}, p95 ${duration(agent.latency.p95_ms)}`,
                  duration,
                ),
              ),
              plot(
                "Latency",
                quantiles(agent.latency),
                spread(
                  agent.durations,
                  agent.latency,
                  `How long executions took: ${quantiles(agent.latency)}`,
                  duration,
                ),
              ),
              plot(
                "Confidence",
                "executions in each tenth",
                tenths(agent.confidence.tenths ?? [], `Confidence, ${confidence(agent.confidence.mean)} on average`),
              ),
              plot(
                "Cost",
                "per interval",
                agent.cost_usd == null
                  ? h("p", { class: "quiet" }, "No call reported a cost.")
                  : linesOverTime(series, ["cost_usd"], `Cost over time, ${cost(agent.cost_usd)} in all`, cost),
              ),
              h(
                "section",
                { class: "plot-box" },
                h("h2", {}, "Errors and models"),
                pairs(agent.errors, "Error", (error) => made("runs", [], { agent: name, error, from })),
                pairs(agent.models, "Model", (model) => made("runs", [], { agent: name, model, from })),
              ),
            ),
      ),
    );
  }
  await draw(address);
  const beat = setInterval(() => { if (!document.hidden) draw(here()).catch(() => {}); }, EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(beat));
  return draw;
}

function plot(title, hint, drawing) {
  return h("section", { class: "plot-box" }, h("h2", {}, title, h("span", { class: "quiet" }, ` ${hint}`)), drawing);
}

function pairs(counts, title, addressOf) {
  const found = Object.entries(counts ?? {});
  if (!found.length) return h("p", { class: "quiet" }, title === "Error" ? "No errors." : "");
  return h(
    "table",
    { class: "grid tight" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, title), h("th", { scope: "col", class: "number" }, "Calls"))),
    h(
      "tbody",
      {},
      found
        .slice(0, 12)
        .map(([name, times]) =>
          h("tr", {}, h("td", {}, link(addressOf(name), plain(name))), h("td", { class: "number" }, count(times))),
        ),
    ),
  );
}

function quantiles({ p50_ms: p50, p95_ms: p95, p99_ms: p99 }) {
  return `p50 ${duration(p50)}, p95 ${duration(p95)}, p99 ${duration(p99)}`;
}
