// View of a comparison: the steps of two runs side by side, the first difference in view.

import { address as made, go } from "../shell/address.js";
import { ask, path } from "../shell/ask.js";
import { button, h, link } from "../shell/elements.js";
import { badge, choice, facts } from "../shell/pieces.js";
import { useKeys } from "../shell/shortcuts.js";
import {
  clock, colourOf, cost, count, duration, kindName, laidOut, plain, several, shortId, useColours,
} from "../shell/words.js";
import { changeOf } from "../run/replayable.js";
import { showChoice } from "./choose.js";
import { contentDifference, isContent } from "./content.js";

/** @type {[string, string, (value: any) => string][]} */
const TOTALS = [
  ["duration_ms", "Duration", duration], ["tokens", "Tokens", count], ["cost_usd", "Cost", cost],
  ["wasted_ms", "Wasted", duration], ["steps", "Steps", count], ["errors", "Errors", count],
];
const SIGNS = { same: "=", changed: "≠", added: "+", removed: "−" };
const SAID = { same: "the same", changed: "changed", added: "only in B", removed: "only in A" };

export async function show(place, address, signal) {
  const [a, b] = address.parts;
  if (!b) return showChoice(place, a ?? "", signal);
  const answer = await ask(`${path("v1", "traces", a, "diff", b)}?everything=true`, { signal });
  useColours(answer.steps.flatMap((step) => step.agent ?? []));
  let all = address.query.get("all") === "yes" || answer.counts.steps <= 40;
  const list = h("div", { class: "diff-list", role: "list", "aria-label": "Steps of both runs" });
  const first = answer.first_difference;
  const isFirst = (step) => first && step.a === first.a && step.b === first.b;

  function draw() {
    const steps = all ? answer.steps : answer.steps.filter((step) => step.change !== "same");
    list.replaceChildren(...steps.map((step) => rowOf(step, isFirst(step), { runs: [a, b], signal })));
    chooser.replaceChildren(
      choice(
        "Which steps",
        [
          ["no", "Differences"],
          ["yes", "All steps"],
        ],
        all ? "yes" : "no",
        (value) => {
          all = value === "yes";
          draw();
        },
      ),
    );
  }

  function toFirst() {
    const row = list.querySelector(".first");
    row?.scrollIntoView({ block: "center" });
    row?.querySelector("summary")?.focus({ preventScroll: true });
  }

  const chooser = h("span", {});
  draw();
  place.replaceChildren(
    h(
      "div",
      { class: "page compare" },
      h(
        "div",
        { class: "heading" },
        h("h1", {}, "Compare"),
        h(
          "span",
          { class: "end" },
          chooser,
          button("Swap", () => go("compare", [b, a])),
          first && button("First difference", toFirst, { class: "primary", title: "To the first difference (d)" }),
        ),
      ),
      h("div", { class: "sides" }, side("A", answer.a), side("B", answer.b)),
      answer.fork &&
        h(
          "div",
          { class: "fork-said" },
          h(
            "p",
            {},
            h("b", {}, answer.fork.branch === b ? "B" : "A"),
            " is a branch of the other run",
            answer.fork.at ? `, with real calls from call ${count(answer.fork.at)} on` : "",
            answer.fork.overrides.length ? ". What was changed:" : ".",
          ),
          answer.fork.overrides.map(changeOf),
        ),
      totals(answer.totals),
      h("p", { class: "diff-said", role: "status" }, answer.same ? "Both runs did the same." : sentence(answer)),
      answer.truncated && h("p", { class: "warn" }, "Not all steps are listed."),
      answer.unread > 0 &&
        h(
          "p",
          { class: "warn" },
          `Of ${several(answer.unread, "step")} only the beginning of the content was compared.`,
        ),
      h("h2", { class: "hidden-visually" }, "Steps"),
      head(),
      list,
    ),
  );
  useKeys({ d: ["To the first difference", toFirst], x: ["Swap the sides", () => go("compare", [b, a])] });
  if (first)
    requestAnimationFrame(() => {
      if (list.querySelector(".first")?.getBoundingClientRect().bottom > innerHeight) toFirst();
    });
}

function sentence({ counts, first_difference: first }) {
  const parts = ["changed", "added", "removed", "same"]
    .filter((each) => counts[each])
    .map((each) => `${count(counts[each])} ${SAID[each]}`);
  return [
    `${parts.join(", ")}. `,
    first &&
      h(
        "span",
        {},
        "First difference: ",
        h("b", {}, plain(first.what)),
        ` of the ${kindName(first.kind)} `,
        h("b", {}, plain(first.name)),
        ` at ${duration(first.offset_ms)}.`,
      ),
  ];
}

function side(letter, run) {
  return h(
    "div",
    { class: "side" },
    h("b", { class: "letter" }, letter),
    badge(run.state),
    run.name && h("b", {}, plain(run.name)),
    link(made("run", [run.trace_id]), shortId(run.trace_id), { class: "mono", title: plain(run.trace_id) }),
    h("span", { class: "quiet" }, clock(run.time)),
  );
}

function totals(sums) {
  return facts(TOTALS.filter(([name]) => sums[name]).map(([name, title, shown]) => {
    const { a, b, delta } = sums[name];
    const part = delta && a ? ` ${delta > 0 ? "+" : "−"}${Math.abs((delta / a) * 100).toFixed(0)}\u00a0%` : "";
    return [
      title,
      [
        h("span", { class: "quiet" }, `${shown(a)} → `),
        shown(b),
        h("small", { class: worse(delta) }, ` ${signed(delta, shown)}${part}`),
      ],
    ];
  }));
}

function worse(delta) {
  return !delta ? "quiet" : delta > 0 ? "warn" : "good";
}

/** Differences below one percent are noise. */
function slight(took) {
  return took?.delta != null && Math.abs(took.delta) < Math.max(took.a ?? 0, took.b ?? 0) / 100;
}

function signed(delta, shown) {
  if (delta == null) return "–";
  return delta > 0 ? `+${shown(delta)}` : delta === 0 ? "±0" : `−${shown(-delta)}`;
}

/** Heads of the columns. */
function head() {
  return h(
    "div",
    { class: "diff-line diff-head quiet", "aria-hidden": "true" },
    h("span"),
    h("span", {}, "Step"),
    h("span", {}, "Differs in"),
    h("span", { class: "number" }, "A took"),
    h("span", { class: "number" }, "B took"),
    h("span", { class: "number" }, "Difference"),
  );
}

function rowOf(step, first, options) {
  const fields = Object.entries(step.fields ?? {});
  const read = step.a && step.b && fields.some(([name]) => isContent(name)) ? contentDifference(step, options) : null;
  const line = [
    h(
      "span",
      { class: "diff-sign", title: SAID[step.change] },
      SIGNS[step.change],
      h("span", { class: "hidden-visually" }, ` ${SAID[step.change]}`),
    ),
    h(
      "span",
      { class: "diff-name", vars: { "--depth": Math.min(step.depth, 12) } },
      h("span", { class: "dot", vars: { "--agent": colourOf(step.agent ?? step.name) } }),
      plain(step.name),
      h("small", { class: "quiet" }, ` ${kindName(step.kind)}`),
      first && h("span", { class: "first-mark" }, "first difference"),
    ),
    h(
      "span",
      { class: "quiet diff-what" },
      fields.map(([name]) => name).join(", ") || (step.change === "same" ? "" : SAID[step.change]),
    ),
    h("span", { class: "number" }, duration(step.duration_ms?.a)),
    h("span", { class: "number" }, duration(step.duration_ms?.b)),
    slight(step.duration_ms)
      ? h("span", { class: "number quiet", title: signed(step.duration_ms.delta, duration) }, "±0")
      : h(
          "span",
          { class: `number ${step.duration_ms?.delta ? "" : "quiet"}` },
          signed(step.duration_ms?.delta, duration),
        ),
  ];
  if (!fields.length)
    return h(
      "div",
      { class: `diff-row d-${step.change}${first ? " first" : ""}`, role: "listitem" },
      h("div", { class: "diff-line" }, line),
    );
  const details = h(
    "details",
    { open: first },
    h("summary", { class: "diff-line" }, line),
    h(
      "div",
      { class: "diff-fields" },
      fields.filter(([name]) => !read || !isContent(name)).map(([name, value]) => plainField(name, value)),
      read?.element,
    ),
  );
  if (first) read?.open();
  details.addEventListener("toggle", () => { if (details.open) read?.open(); });
  return h("div", { class: `diff-row d-${step.change}${first ? " first" : ""}`, role: "listitem" }, details);
}

/** A field with both values, one below the other. */
function plainField(name, value) {
  const side = (letter, kind) =>
    h(
      "pre",
      { class: `value ${kind}`, tabindex: "0", "aria-label": `${plain(name)} in ${letter}` },
      laidOut(value[letter.toLowerCase()]) || "nothing",
    );
  return [h("h3", {}, plain(name)), side("A", "before"), side("B", "after")];
}
