// View of one session: its turns with their rounds of model and tool calls.

import { ScoreBox, scoreButton } from "../content/scores.js";
import { address as made } from "../shell/address.js";
import { ask, path } from "../shell/ask.js";
import { button, h, link } from "../shell/elements.js";
import { agentName, badge, costWithUnpriced, facts } from "../shell/pieces.js";
import { averages, scoreLabels } from "../shell/scores.js";
import { useKeys } from "../shell/shortcuts.js";
import { clock, cost, count, duration, laidOut, plain, priceRemedy, several } from "../shell/words.js";

export async function show(place, address, signal) {
  const id = address.parts[0] ?? "";
  const session = await ask(path("v1", "sessions", id), { signal });
  const { turns } = session;
  const rows = turns.map((turn, at) => turnOf(turn, at, signal));
  const box = new ScoreBox({ session: id, signal, onSaved: (scores) => drawLabels(scores) });
  const labels = h("span", {});
  const drawLabels = (scores) => labels.replaceChildren(scoreLabels(scores, 6, "session") ?? "");
  drawLabels(session.scores);
  box.show({});
  const sum = (name) => turns.reduce((total, turn) => total + (turn[name] ?? 0), 0);
  const lacking = {
    tokens: sum("tokens"),
    unpriced_tokens: sum("unpriced_tokens"),
    unpriced_models: [...new Set(turns.flatMap((turn) => turn.unpriced_models ?? []))].slice(0, 5),
  };
  place.replaceChildren(
    h(
      "div",
      { class: "page session" },
      h(
        "div",
        { class: "heading" },
        link("#/sessions", "Sessions", { class: "quiet" }),
        h("span", { class: "quiet", "aria-hidden": "true" }, "/"),
        h("h1", {}, plain(id)),
        session.users
          .slice(0, 5)
          .map((user) => link(made("runs", [], { user, from: "7d" }), plain(user), { title: "Runs of this user" })),
        labels,
        h("span", { class: "end" }, scoreButton(box)),
      ),
      facts([
        ["Turns", count(turns.length)],
        failedOf(turns),
        ["Model calls", count(sum("model_calls"))],
        ["Tool calls", count(sum("tool_calls"))],
        ["Tokens", count(sum("tokens") || null)],
        ["Cost", costWithUnpriced(lacking, sum("cost_usd") || null), priceRemedy(lacking)],
        ...averages(turns.flatMap((turn) => turn.scores ?? [])).map(({ name, text, scores }) => [
          plain(name),
          text,
          `Of ${several(scores, "score")} of turns`,
        ]),
      ]),
      box.element,
      session.truncated && h("p", { class: "warn" }, "Not all turns are shown."),
      h("h2", { class: "hidden-visually" }, "Turns"),
      h("ol", { class: "turns" }, rows),
    ),
  );
  useKeys({
    s: ["Give a score to the session", () => box.open()],
    t: ["Give a score to the last turn", () => rows.at(-1)?.querySelector("button.score-it")?.click()],
  });
}

function failedOf(turns) {
  const failed = turns.filter((turn) => ["failed", "crashed"].includes(turn.status)).length;
  return ["Failed", count(failed), "Turns that failed", failed ? "bad" : ""];
}

function turnOf(turn, at, signal) {
  const said = turn.answered ?? turn.answer;
  const row = h(
    "li",
    { class: "turn" },
    h(
      "header",
      {},
      h("b", {}, `Turn ${at + 1}`),
      badge(turn.status),
      h(
        "span",
        { class: "quiet" },
        [
          clock(turn.started_at),
          duration(turn.duration_ms),
          turn.tokens ? several(turn.tokens, "token") : null,
          turn.cost_usd ? cost(turn.cost_usd) : null,
        ]
          .filter(Boolean)
          .join(" · "),
      ),
      scoreLabels(turn.scores),
      h(
        "span",
        { class: "end" },
        button("Score", () => openScores(row, turn.trace_id, signal), {
          class: "small score-it",
          title: "Give a score",
        }),
        link(made("run", [turn.trace_id]), "Open the run"),
      ),
    ),
    (turn.asked ?? turn.prompt) && h("div", { class: "said user" }, plain(turn.asked ?? turn.prompt)),
    turn.rounds.length > 0 &&
      h(
        "details",
        { class: "rounds" },
        h(
          "summary",
          {},
          `${several(turn.rounds.length, "round")}, ${several(
            turn.rounds.reduce((sum, round) => sum + round.tools.length, 0),
            "tool call",
          )}`,
        ),
        turn.rounds.map((round) =>
          h(
            "div",
            { class: "round" },
            h(
              "p",
              {},
              agentName(round.agent ?? ""),
              " ",
              h("code", {}, plain(round.model ?? "")),
              h("span", { class: "quiet" }, [
                round.duration_ms != null && ` ${duration(round.duration_ms)}`,
                round.tokens && ` · ${several(round.tokens, "token")}`,
              ]),
              round.status && round.status !== "success" && badge(round.status),
            ),
            round.tools.map((tool) =>
              h(
                "details",
                { class: "tool" },
                h(
                  "summary",
                  {},
                  "⚙ ",
                  h("code", {}, plain(tool.tool)),
                  h("span", { class: "quiet" }, ` ${duration(tool.duration_ms)} `),
                  tool.status !== "success" && badge(tool.status),
                ),
                toolValue("Arguments", tool.arguments),
                toolValue("Result", tool.result),
              ),
            ),
          ),
        ),
      ),
    said
      ? h("div", { class: "said answer" }, plain(said))
      : turn.error_types?.length
        ? h("div", { class: "said answer bad" }, "✕ ", turn.error_types.map(plain).join(", "))
        : null,
  );
  return row;
}

/** @type {WeakMap<Element, ScoreBox>} */
const boxes = new WeakMap();

/** The scores of a turn with their form, below it. */
function openScores(row, trace, signal) {
  let box = boxes.get(row);
  if (!box) {
    box = new ScoreBox({ trace, signal });
    boxes.set(row, box);
    row.append(box.element);
    box.show({});
  }
  box.open();
}

function toolValue(title, value) {
  const text = laidOut(value);
  if (!text) return null;
  return [
    h("p", { class: "value-name quiet" }, title),
    h("pre", { class: "value", tabindex: "0", "aria-label": title }, text),
  ];
}
