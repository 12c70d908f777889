// Search bar and active filters; both show the state that the address holds.

import { change } from "../shell/address.js";
import { ask } from "../shell/ask.js";
import { button, h } from "../shell/elements.js";
import { count, plain } from "../shell/words.js";

export const FILTERS = [
  "status", "pipeline", "agent", "model", "provider", "service", "session", "user", "error", "category", "code",
  "attribute", "min_duration_ms", "max_duration_ms", "min_cost_usd", "max_cost_usd", "min_tokens", "max_tokens",
  "min_confidence", "max_confidence", "min_errors", "min_retries", "min_fallbacks",
  "score", "score_category", "min_score", "max_score", "decision_type", "decision_category", "decision_agent",
  "decision_chosen", "min_decision_confidence", "max_decision_confidence", "below_threshold",
];
const PASSED = [...FILTERS, "q", "from", "to", "sort", "order", "live"];
const WINDOWS = [
  ["15m", "15 minutes"],
  ["1h", "hour"],
  ["6h", "6 hours"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
];
const QUICK = [
  ["min_errors", "1", "With errors"],
  ["min_retries", "1", "With retries"],
  ["min_fallbacks", "1", "With fallbacks"],
];
export const DEFAULT_WINDOW = "1h";

/** The query for the collector: the known parameters of an address. */
export function questionOf(query) {
  const question = new URLSearchParams();
  for (const name of PASSED) for (const value of query.getAll(name)) question.append(name, value);
  if (!question.has("from") && !question.has("to")) question.set("from", DEFAULT_WINDOW);
  return question;
}

/** The list as it is first asked for; `app` asks for it before the view is loaded. */
export const PAGE = 50;
/** Agent executions drawn per run; one more is requested to know whether there are more. */
export const MOST_EXECUTIONS = 16;

export function readRuns(question, signal, changes = {}) {
  const query = new URLSearchParams(question);
  query.delete("live"); // a parameter of the page only: the collector refuses unknown ones
  for (const [name, value] of Object.entries({ limit: PAGE, executions: MOST_EXECUTIONS + 1, ...changes }))
    query.set(name, String(value));
  return ask(`/v1/traces?${query}`, { signal });
}

export function searchBar({ toggleFacets, toggleLive }) {
  const words = h("input", {
    type: "search", name: "q", "aria-label": "Search prompts, outputs, reasoning and errors",
    placeholder: "Words in prompts, outputs, reasoning, errors", autocomplete: "off", maxlength: 400,
  });
  const span = h("select", {
    "aria-label": "Window of time",
    on: { change: () => change({ from: span.value, to: null }) },
  });
  const live = button("Live", toggleLive, { class: "livebutton", title: "Follow new runs (l)" });
  const rate = h("span", {
    class: "quiet",
    "aria-hidden": "true",
    title: "Events that came in during the last second",
  });
  const form = h(
    "form",
    {
      class: "search",
      role: "search",
      on: {
        submit: (event) => {
          event.preventDefault();
          change({ q: words.value.trim() });
        },
      },
    },
    h("div", { class: "words" }, words, h("kbd", { "aria-hidden": "true" }, "/")),
    button("Filters", (event) => event.target.setAttribute("aria-expanded", String(toggleFacets())), {
      class: "facets-toggle",
      "aria-expanded": "false",
    }),
    span,
    live,
    rate,
  );
  words.addEventListener("search", () => change({ q: words.value.trim() }));

  return {
    element: form,
    focus: () => { words.focus(); words.select(); },
    show(question) {
      if (document.activeElement !== words) words.value = question.get("q") ?? "";
      const custom = question.has("to") || !WINDOWS.some(([value]) => value === question.get("from"));
      span.replaceChildren(
        custom ? h("option", { value: "custom", selected: true, disabled: true }, "Chosen window") : "",
        ...WINDOWS.map(([value, text]) =>
          h("option", { value, selected: !custom && value === question.get("from") }, `Last ${text}`),
        ),
      );
    },
    setLive(state) {
      live.setAttribute("aria-pressed", String(state !== "off"));
      live.classList.toggle("away", state === "away" || state === "refused");
      if (state === "off") rate.textContent = "";
    },
    setRate(seen) {
      rate.textContent = seen ? `${count(seen)} events/s` : "";
    },
  };
}

export function showChips(place, question, { clear }) {
  const chips = [];
  for (const name of [...FILTERS, "q"]) {
    for (const value of question.getAll(name)) {
      const text = `${name === "q" ? "words" : name.replaceAll("_", " ")}: ${plain(value)}`;
      const rest = question.getAll(name).filter((each) => each !== value);
      chips.push(h("span", { class: "chip" }, h("span", {}, text),
        button("×", () => change({ [name]: rest }), { "aria-label": `Remove ${text}` })));
    }
  }
  if (question.has("to")) {
    chips.push(h("span", { class: "chip" }, h("span", {}, "chosen window"),
      button("×", () => change({ from: null, to: null }), { "aria-label": "Remove the chosen window" })));
  }
  if (chips.length > 1) chips.push(button("Clear all", clear, { class: "small" }));
  place.replaceChildren(...chips);
}

/** Filters that are not counted, offered beside the facets. */
export function quickFilters(question) {
  return QUICK.map(([name, value, text]) => {
    const on = question.get(name) === value;
    return { text, on, toggle: () => change({ [name]: on ? null : value }) };
  });
}
