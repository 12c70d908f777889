// Content of tool calls, agents, pipelines and steps: question and answer, then the values themselves.

import { h } from "../shell/elements.js";
import { several } from "../shell/words.js";
import { block, folding } from "./block.js";
import { inChunks } from "./chunks.js";
import { messageOf } from "./message.js";
import { cutWords, isEmpty, messagesOfState, turnsOf } from "./model.js";

/** Messages of a state that is not folded at first. */
const FEW = 12;

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
  const messages = messagesOfState(content);
  // Question and answer are all there is to a state of two messages.
  const conversation = messages.length > 2 && stateOf(messages, signal);
  const open = !messages.length;
  return h(
    "div",
    { class: "values" },
    cut,
    block("Asked", asked, { laidOut: true, signal }),
    block("Answered", answered, { laidOut: true, signal }),
    conversation,
    // A text that is the question itself is not shown twice.
    input !== asked && block("Input", input, { open, signal }),
    output !== answered && block("Output", output, { open, signal }),
  );
}

function stateOf(messages, signal) {
  const inside = () => {
    const place = h("div", { class: "messages" });
    const turns = turnsOf({ kind: "model", input: messages }).fresh;
    inChunks(turns, (turn) => place.append(messageOf(turn, { signal })), signal);
    return place;
  };
  const hint = several(messages.length, "message");
  return folding("Conversation", inside, { open: messages.length <= FEW, hint, kind: "conversation" });
}
