// Facets: counts of common values among the runs found; a click filters by the value.

import { change } from "../shell/address.js";
import { button, h } from "../shell/elements.js";
import { colourOf, compact, errorName, plain, signOf } from "../shell/words.js";
import { quickFilters } from "./filters.js";

const TITLES = {
  status: "Status",
  pipeline: "Pipeline",
  agent: "Agent",
  model: "Model",
  error: "Error",
  service: "Service",
};

export function showFacets(place, facets, question) {
  const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("data-facet") : null;
  const groups = Object.entries(TITLES).map(([kind, title]) => group(kind, title, facets[kind] ?? [], question));
  const quick = h(
    "fieldset",
    {},
    h("legend", {}, "Problems"),
    quickFilters(question).map(({ text, on, toggle }) =>
      button(h("span", { class: "name" }, text), toggle, {
        class: "facet",
        "aria-pressed": String(on),
        "data-facet": text,
      }),
    ),
  );
  groups.splice(1, 0, quick);
  place.replaceChildren(...groups.filter(Boolean));
  if (focused) [...place.querySelectorAll("button")].find((each) => each.dataset.facet === focused)?.focus();
}

function group(kind, title, counted, question) {
  const chosen = question.getAll(kind);
  const values = [...counted];
  for (const value of chosen) if (!values.some((each) => each.value === value)) values.push({ value, runs: null });
  if (!values.length) return null;
  return h("fieldset", {}, h("legend", {}, title), values.slice(0, 12).map(({ value, runs }) => {
    const on = chosen.includes(value);
    return button(
      [
        kind === "status" && h("span", { class: `badge s-${value}` }, h("i", { "aria-hidden": "true" }, signOf(value))),
        kind === "agent" && h("span", { class: "dot", vars: { "--agent": colourOf(value) } }),
        h(
          "span",
          { class: "name", title: plain(value) },
          shown(kind, value) || "(none)",
        ),
        h("span", { class: "count" }, runs == null ? "" : compact(runs)),
      ],
      () => change({ [kind]: on ? chosen.filter((each) => each !== value) : [...chosen, value] }),
      { class: "facet", "aria-pressed": String(on), "data-facet": `${kind}:${value}` },
    );
  }));
}

function shown(kind, value) {
  if (kind === "error") return errorName(value);
  return kind === "status" ? plain(value).replaceAll("_", " ") : plain(value);
}
