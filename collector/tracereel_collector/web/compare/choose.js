// Choice of the run to compare with: runs of the same pipeline, or those that a search finds.

import { address as made, go } from "../shell/address.js";
import { ask, path } from "../shell/ask.js";
import { button, h, link } from "../shell/elements.js";
import { badge } from "../shell/pieces.js";
import { clock, cost, duration, plain } from "../shell/words.js";

const WAIT_MS = 250;
const PAGE = "50";

export async function showChoice(place, id, signal) {
  let pipeline = "";
  if (id) {
    // A page of one entry: of a long run the whole is not needed for its name.
    const { summary } = await ask(`${path("v1", "replay", id)}?limit=1&linked=false`, { signal });
    pipeline = summary.pipeline_type ?? "";
  }
  const said = h("p", { class: "quiet", role: "status" });
  const list = h("div", {});
  const field = h("input", {
    id: "other",
    type: "search",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "Words of the run, or its id",
  });
  const chosen = (other) => made("compare", id ? [id, other] : [other]);
  let asked = new AbortController();
  let timer;
  signal.addEventListener("abort", () => asked.abort());

  /** Shows runs that have the words; without words, those of the same pipeline. */
  async function search(words, before = null) {
    asked.abort();
    asked = new AbortController();
    const query = new URLSearchParams({ limit: PAGE });
    if (words) query.set("q", words);
    else if (pipeline) query.set("pipeline", pipeline);
    if (before) query.set("cursor", before);
    const answer = await ask(`/v1/traces?${query}`, { signal: asked.signal });
    const others = answer.traces.filter((run) => run.trace_id !== id);
    const rows = others.map((run) => rowOf(run, chosen(run.trace_id)));
    if (before) list.querySelector("tbody").append(...rows);
    else list.replaceChildren(...(rows.length ? [tableOf(rows)] : []));
    list.querySelector(".more-runs")?.remove();
    if (answer.next) list.append(button("Show more", () => search(words, answer.next), { class: "more-runs" }));
    if (words)
      said.textContent = others.length ? "Runs with these words, the newest first:" : "No run has these words.";
    else if (pipeline) {
      const of = `Runs of the pipeline ${plain(pipeline)}, the newest first:`;
      said.textContent = others.length ? of : `No other run of the pipeline ${plain(pipeline)} yet.`;
    } else said.textContent = others.length ? "The newest runs:" : "There is no other run yet.";
  }

  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(() => search(field.value.trim()).catch(tell), WAIT_MS);
  };
  const tell = (error) => { if (error.name !== "AbortError") said.textContent = plain(error.message); };
  const submit = async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    const text = field.value.trim();
    const known = await ask(`${path("v1", "replay", text)}?limit=1&linked=false`, { signal }).catch(() => null);
    if (known) go("compare", id ? [id, text] : [text]);
    else search(text).catch(tell);
  };
  field.addEventListener("input", soon);
  await search("");
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
          { class: "end", role: "search", on: { submit } },
          h("label", { for: "other", class: "hidden-visually" }, "Words of another run, or its id"),
          field,
          h("button", {}, "Compare"),
        ),
      ),
      said,
      list,
    ),
  );
}

function tableOf(rows) {
  const titles = [["Status", ""], ["Run", ""], ["Began", ""], ["Duration", "number"], ["Cost", "number"]];
  const head = titles.map(([title, kind]) => h("th", { scope: "col", class: kind }, title));
  return h("table", { class: "grid cards choices" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
}

function rowOf(run, href) {
  const name = plain(run.prompt ?? run.name ?? run.trace_id);
  return h(
    "tr",
    {},
    h("td", {}, badge(run.status)),
    h("td", { class: "cut", title: plain(run.prompt ?? "").slice(0, 600) }, link(href, name)),
    h("td", { class: "quiet" }, clock(run.started_at)),
    h("td", { class: "number" }, duration(run.duration_ms)),
    h("td", { class: `number${run.cost_usd == null ? " nothing" : ""}` }, cost(run.cost_usd)),
  );
}
