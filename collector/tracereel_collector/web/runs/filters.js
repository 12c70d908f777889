// The filters that are set, as chips; quick filters; named views, which are kept in this browser.

import { address, change } from "../shell/address.js";
import { button, h, link } from "../shell/elements.js";
import { plain } from "../shell/words.js";
import { FILTERS } from "./parameters.js";

const QUICK = [
  ["min_errors", "1", "With errors"],
  ["min_retries", "1", "With retries"],
  ["min_fallbacks", "1", "With fallbacks"],
];
const MOST_VIEWS = 30;
const MOST_CHARACTERS = 60;

export function showChips(place, question, { clear }) {
  const chips = [];
  for (const name of [...FILTERS, "q"]) {
    for (const value of question.getAll(name)) {
      const text = `${name === "q" ? "text" : name.replaceAll("_", " ")}: ${plain(value)}`;
      const rest = question.getAll(name).filter((each) => each !== value);
      chips.push(
        h(
          "span",
          { class: "chip" },
          h("span", {}, text),
          button("×", () => change({ [name]: rest }), { "aria-label": `Remove ${text}` }),
        ),
      );
    }
  }
  if (question.has("to")) {
    chips.push(
      h(
        "span",
        { class: "chip" },
        h("span", {}, "chosen window"),
        button("×", () => change({ from: null, to: null }), { "aria-label": "Remove the chosen window" }),
      ),
    );
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

function savedViews() {
  try {
    const saved = JSON.parse(localStorage.getItem("views") ?? "[]");
    return saved
      .filter(({ name, query }) => typeof name === "string" && typeof query === "string")
      .slice(0, MOST_VIEWS);
  } catch {
    return [];
  }
}

/** The saved views and a form that saves the present one; `redraw` is called after a change. */
export function viewsOf(question, redraw) {
  const views = savedViews();
  const now = String(question);
  const keep = (list) => { localStorage.setItem("views", JSON.stringify(list.slice(0, MOST_VIEWS))); redraw(); };
  const field = h("input", {
    "aria-label": "Name of the view", placeholder: "Save this view as …", maxlength: MOST_CHARACTERS, required: true,
    autocomplete: "off",
  });
  const submit = (event) => {
    event.preventDefault();
    const name = field.value.trim();
    if (name) keep([{ name, query: now }, ...views.filter((each) => each.name !== name)]);
  };
  return h(
    "fieldset",
    { class: "views" },
    h("legend", {}, "Views"),
    views.map(({ name, query }) =>
      h(
        "div",
        { class: "view-row" },
        link(address("runs", [], new URLSearchParams(query)), plain(name), {
          class: "name", "aria-current": query === now ? "true" : null,
        }),
        button("×", () => keep(views.filter((each) => each.name !== name)), {
          class: "small", "aria-label": `Forget the view ${plain(name)}`,
        }),
      ),
    ),
    views.length < MOST_VIEWS &&
      h("form", { on: { submit } }, field, h("button", { class: "small" }, "Save")),
  );
}
