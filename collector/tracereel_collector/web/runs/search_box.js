// Search bar: one box for words, ids of runs and filters; window of time, live, link.

import { address, change, go } from "../shell/address.js";
import { ask, path } from "../shell/ask.js";
import { button, copyButton, h, toast } from "../shell/elements.js";
import { count } from "../shell/words.js";
import { completing } from "./completion.js";
import { adding, frozen, questionOf } from "./parameters.js";
import { mayBeId, parse } from "./query_text.js";

const WINDOWS = [
  ["15m", "15 minutes"],
  ["1h", "hour"],
  ["6h", "6 hours"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
];

export function searchBar({ toggleFacets, toggleLive, signal }) {
  let question = questionOf(new URLSearchParams());
  const words = h("input", {
    type: "search", name: "q", "aria-label": "Search runs", autocomplete: "off", maxlength: 400, spellcheck: "false",
    placeholder: "Words, a run id, or user: agent: model: status: cost:> duration:> score: …",
  });
  const completion = completing(words, { question: () => question, signal });
  const span = h("select", {
    "aria-label": "Window of time",
    on: { change: () => change({ from: span.value, to: null }) },
  });
  const live = button("Live", toggleLive, { class: "livebutton", title: "Follow new runs (l)" });
  const rate = h("span", {
    class: "quiet rate",
    "aria-hidden": "true",
    title: "Events that came in during the last second",
  });
  const linkTo = copyButton(() => location.href.split("#")[0] + address("runs", [], frozen(question)), "Copy link");
  linkTo.title = "A link to this list, with the window of time as it is now";
  const form = h(
    "form",
    { class: "search", role: "search", on: { submit: (event) => { event.preventDefault(); submit(); } } },
    h("div", { class: "words" }, words, h("kbd", { "aria-hidden": "true" }, "/"), completion.element),
    completion.names,
    button("Filters", (event) => event.target.setAttribute("aria-expanded", String(toggleFacets())), {
      class: "facets-toggle",
      "aria-expanded": "false",
    }),
    span,
    live,
    linkTo,
    rate,
  );
  words.addEventListener("search", () => { if (words.value === "") change({ q: null }); });

  /** An id opens its run; filters are added to those that are set; words replace the words before. */
  async function submit() {
    completion.close();
    const text = words.value.trim();
    const { words: left, filters, problem } = parse(text);
    if (problem) { toast(problem); return; }
    if (mayBeId(text) && (await isRun(text))) { go("run", [text]); return; }
    if (signal.aborted) return;
    words.value = left;
    change({ ...adding(question, filters), q: left });
  }

  async function isRun(id) {
    return ask(`${path("v1", "replay", id)}?limit=1&linked=false`, { signal }).then(() => true, () => false);
  }

  return {
    element: form,
    focus: () => { words.focus(); words.select(); },
    show(shown) {
      question = shown;
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
