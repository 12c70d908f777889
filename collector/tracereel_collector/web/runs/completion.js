// Completion of the search box: names of filters, and values that runs of the window have.

import { ask } from "../shell/ask.js";
import { button, h } from "../shell/elements.js";
import { compact, plain } from "../shell/words.js";
import { NAMES, STATUSES, namesFor, unfinished, written } from "./query_text.js";

const MOST_SHOWN = 10;
const FRESH_MS = 30_000;
const LIST = "search-completion";

/** Adds a list of completions to a field; `question` returns the present parameters, `only` are the names offered. */
export function completing(field, { question, signal, only = Object.keys(NAMES) }) {
  const list = h("ul", { id: LIST, role: "listbox", "aria-label": "Completions", class: "completions", hidden: true });
  const known = new Map();
  let offered = [];
  let active = -1;
  let asked = 0;
  for (const [name, value] of Object.entries({
    role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": LIST,
  }))
    field.setAttribute(name, value);

  /** Values of a filter with their number of runs, the most frequent first. */
  async function valuesOf(name) {
    const { of, facet, scores, values } = NAMES[name];
    if (values) return values.map((value) => ({ value }));
    const from = question().get("from") ?? "7d";
    const key = `${name} ${from} ${question().get("to")}`;
    const before = known.get(key);
    if (before && Date.now() - before.at < FRESH_MS) return before.values;
    let found = [];
    if (facet) {
      const query = new URLSearchParams({ limit: "0", facets: of, from });
      if (question().has("to")) query.set("to", question().get("to"));
      found = (await ask(`/v1/traces?${query}`, { signal })).facets[of];
      const rest = name === "status" ? STATUSES.filter((each) => !found.some(({ value }) => value === each)) : [];
      found = [...found, ...rest.map((value) => ({ value }))];
    } else if (scores) {
      const { averages } = await ask("/v1/scores/averages", { signal });
      found = [...new Set(averages.map((each) => each.name))].map((value) => ({ value }));
    }
    known.set(key, { at: Date.now(), values: found });
    return found;
  }

  async function offersFor({ name, value }) {
    if (!name) {
      const names = namesFor(value).filter((each) => only.includes(each));
      return names.map((each) => ({ text: `${each}:`, insert: `${each}:`, note: NAMES[each].what }));
    }
    const part = value.toLowerCase();
    const values = (await valuesOf(name)).filter((each) => each.value && each.value.toLowerCase().includes(part));
    return values.map((each) => ({
      text: plain(each.value),
      insert: `${written(name, each.value)} `,
      note: each.runs == null ? "" : compact(each.runs),
    }));
  }

  async function offer({ all = false } = {}) {
    const number = ++asked;
    const at = unfinished(field.value, field.selectionStart ?? field.value.length);
    if (!at.name && !at.value && !all) { close(); return; }
    const made = await offersFor(at).catch(() => []);
    if (number !== asked || document.activeElement !== field) return;
    offered = made.slice(0, all ? Infinity : MOST_SHOWN).map((each) => ({ ...each, start: at.start }));
    active = -1;
    draw();
  }

  function draw() {
    list.replaceChildren(...offered.map((each, index) =>
      h("li", {
        role: "option", id: `${LIST}-${index}`, "aria-selected": String(index === active),
        // The field keeps the focus.
        on: { pointerdown: (event) => { event.preventDefault(); accept(index); } },
      }, h("span", {}, each.text), h("small", { class: "quiet" }, each.note))));
    list.hidden = !offered.length;
    field.setAttribute("aria-expanded", String(!list.hidden));
    if (active < 0) field.removeAttribute("aria-activedescendant");
    else field.setAttribute("aria-activedescendant", `${LIST}-${active}`);
    list.children[active]?.scrollIntoView({ block: "nearest" });
  }

  function close() {
    asked += 1;
    offered = [];
    active = -1;
    draw();
  }

  function accept(index) {
    const { insert, start } = offered[index];
    const rest = field.value.slice(field.selectionStart ?? field.value.length).replace(/^[^\s]*\s?/, "");
    field.value = field.value.slice(0, start) + insert + rest;
    field.setSelectionRange(start + insert.length, start + insert.length);
    close();
    if (insert.endsWith(":")) offer();
  }

  field.addEventListener("input", () => offer());
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      if (list.hidden) offer({ all: true });
      else {
        active = (active + by + offered.length) % offered.length;
        draw();
      }
    } else if (!list.hidden && (event.key === "Tab" || (event.key === "Enter" && active >= 0))) {
      event.preventDefault();
      accept(Math.max(0, active));
    } else if (!list.hidden && event.key === "Escape") {
      event.preventDefault();
      close();
    }
  });
  return {
    element: list,
    close,
    names: button("?", () => { field.focus(); offer({ all: true }); }, {
      class: "ghost names", "aria-label": "What can be searched for", title: "What can be searched for",
    }),
  };
}
