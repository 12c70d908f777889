// Content of tool calls, agents, pipelines and steps: question and answer, then the values themselves.

import { h } from "../shell/elements.js";
import { block } from "./block.js";
import { cutWords, isEmpty } from "./model.js";

/**
 * @param {import("./model.js").Content} content
 * @param {{ signal: AbortSignal }} options
 */
export function valuesOf(content, { signal }) {
  if (isEmpty(content)) return h("p", { class: "quiet" }, "No input and no output was recorded.");
  const cut = content.cut && h("p", { class: "cut-mark", role: "note" }, cutWords(content.cut, "character"));
  if (content.kind === "tool") {
    return h("div", { class: "values" }, cut, block("Arguments", content.arguments, { signal }),
      block("Result", content.result, { signal }));
  }
  const { asked, answered, input, output } = content;
  return h(
    "div",
    { class: "values" },
    cut,
    block("Asked", asked, { laidOut: true, signal }),
    block("Answered", answered, { laidOut: true, signal }),
    // A text that is the question itself is not shown twice.
    input !== asked && block("Input", input, { signal }),
    output !== answered && block("Output", output, { signal }),
  );
}
