// A model call as a conversation: offered tools, earlier messages, new ones, the answer.

import { address } from "../shell/address.js";
import { button, h, link } from "../shell/elements.js";
import { plain, several } from "../shell/words.js";
import { folding } from "./block.js";
import { inChunks } from "./chunks.js";
import { messageOf } from "./message.js";
import { cutWords, earlierWords, turnsOf } from "./model.js";
import { textOf } from "./text.js";
import { treeOf } from "./tree.js";

/**
 * @param {import("./model.js").Content} content
 * @param {{ trace: string, signal: AbortSignal }} options
 */
export function conversationOf(content, { trace, signal }) {
  const { earlier, fresh, output } = turnsOf(content);
  const input = h("div", { class: "messages" });
  const answer = h("div", { class: "messages" });
  const add = (place, turn) => {
    if (turn.after) place.append(missing(turn.after));
    place.append(messageOf(turn, { signal }));
  };
  const draw = (turns, place) => inChunks(turns, (turn) => add(place, turn), signal);
  const placed = [...earlier, ...fresh].some((turn) => turn.after);
  const answers = h(
    "section",
    { class: "answer", "aria-label": "Output", tabindex: "-1" },
    h("h3", {}, "Output"),
    output.length ? answer : h("p", { class: "quiet" }, "The model answered nothing, or nothing was recorded."),
  );
  const toAnswer = () => {
    answers.scrollIntoView({ block: "start" });
    answers.focus({ preventScroll: true });
  };
  const before = () => {
    const place = h("div", { class: "messages" });
    draw(earlier, place);
    return place;
  };
  const made = h(
    "div",
    { class: "conversation" },
    toolsOf(content.tools ?? [], signal),
    parametersOf(content.parameters ?? {}, signal),
    h(
      "section",
      { "aria-label": "Input" },
      h(
        "div",
        { class: "section-head" },
        h("h3", {}, "Input ", h("span", { class: "quiet" }, several(content.input?.length ?? 0, "message"))),
        fresh.length > 1 && output.length > 0 && button("To the answer ↓", toAnswer, { class: "small" }),
      ),
      earlier.length > 0 &&
        h(
          "div",
          { class: "earlier" },
          folding(earlierWords(content), before, { open: false }),
          content.earlier_step &&
            link(address("run", [trace], { step: content.earlier_step }), "Show the previous call"),
        ),
      content.cut && !placed && missing(content.cut),
      input,
    ),
    answers,
  );
  // The answer first: it is what most readers look for, and it is short.
  draw(output, answer).then(() => draw(fresh, input));
  return made;
}

function missing(cut) {
  return h("p", { class: "cut-mark", role: "note" }, cutWords(cut, "message"));
}

function toolsOf(tools, signal) {
  if (!tools.length) return null;
  const inside = () =>
    h(
      "ul",
      { class: "offered" },
      tools.map(({ name, description, parameters, type }) =>
        h(
          "li",
          {},
          h("b", {}, plain(name)),
          type && type !== "function" && h("span", { class: "quiet" }, ` ${plain(type)}`),
          description && textOf(description, { signal }),
          parameters != null && treeOf(parameters, { rows: 8, signal, label: `Parameters of ${plain(name)}` }),
        ),
      ),
    );
  const hint = plain(tools.map((tool) => tool.name).join(", ").slice(0, 200));
  return folding(several(tools.length, "tool"), inside, {
    open: false,
    hint,
    copied: () => JSON.stringify(tools, null, 2),
  });
}

function parametersOf(parameters, signal) {
  const pairs = Object.entries(parameters);
  if (!pairs.length) return null;
  const hint = pairs
    .slice(0, 6)
    .map(([name, value]) => `${name} ${typeof value === "object" ? "…" : String(value).slice(0, 20)}`)
    .join(", ");
  return folding("Parameters", () => treeOf(parameters, { signal, label: "Parameters" }), {
    open: false,
    hint: plain(hint),
    copied: () => JSON.stringify(parameters, null, 2),
  });
}
