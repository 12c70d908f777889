// Choice of the run to compare with: similar runs, the newest first.

import { address as made, go } from "../shell/address.js";
import { ask, path } from "../shell/ask.js";
import { h, link } from "../shell/elements.js";
import { badge } from "../shell/pieces.js";
import { clock, cost, duration, plain } from "../shell/words.js";

export async function showChoice(place, id, signal) {
  const query = new URLSearchParams({ limit: "50" });
  let name = null;
  if (id) {
    // A page of one entry: of a long run the whole is not needed for its name.
    const { summary } = await ask(`${path("v1", "replay", id)}?limit=1&linked=false`, { signal });
    name = summary.pipeline_type;
    if (name) query.set("pipeline", name);
  }
  const { traces } = await ask(`/v1/traces?${query}`, { signal });
  const others = traces.filter((run) => run.trace_id !== id);
  const field = h("input", {
    id: "other",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "Id of another run",
  });
  const submit = (event) => {
    event.preventDefault();
    go("compare", id ? [id, field.value.trim()] : [field.value.trim()]);
  };
  place.replaceChildren(
    h(
      "div",
      { class: "page" },
      h(
        "div",
        { class: "heading" },
        h("h1", {}, id ? "Compare with" : "Compare"),
        id && h("code", { class: "quiet" }, plain(id)),
        h(
          "form",
          { class: "end", on: { submit } },
          h("label", { for: "other", class: "hidden-visually" }, "Id of another run"),
          field,
          h("button", {}, "Compare"),
        ),
      ),
      h(
        "p",
        { class: "quiet" },
        others.length ? "Runs of the same pipeline, the newest first:" : nothingElse(name),
      ),
      others.length > 0 &&
        h(
          "table",
          { class: "grid cards choices" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              [
                ["Status", ""],
                ["Run", ""],
                ["Began", ""],
                ["Duration", "number"],
                ["Cost", "number"],
              ].map(([title, kind]) => h("th", { scope: "col", class: kind }, title)),
            ),
          ),
          h(
            "tbody",
            {},
            others.map((run) =>
              h(
                "tr",
                {},
                h("td", {}, badge(run.status)),
                h(
                  "td",
                  { class: "cut", title: plain(run.prompt ?? "").slice(0, 600) },
                  link(
                    made("compare", id ? [id, run.trace_id] : [run.trace_id]),
                    plain(run.prompt ?? run.name ?? run.trace_id),
                  ),
                ),
                h("td", { class: "quiet" }, clock(run.started_at)),
                h("td", { class: "number" }, duration(run.duration_ms)),
                h("td", { class: `number${run.cost_usd == null ? " nothing" : ""}` }, cost(run.cost_usd)),
              ),
            ),
          ),
        ),
    ),
  );
}

function nothingElse(pipeline) {
  return pipeline ? `No other run of the pipeline ${plain(pipeline)} yet.` : "There is no other run yet.";
}
