// Differences of the content of two steps: message by message and word by word.

import { block, folding } from "../content/block.js";
import { inChunks } from "../content/chunks.js";
import { messageOf } from "../content/message.js";
import { structureOf, textOf as wholeText, turnsOf, valueText } from "../content/model.js";
import { readContent } from "../content/reading.js";
import { button, h } from "../shell/elements.js";
import { failure } from "../shell/states.js";
import { count, plain, several } from "../shell/words.js";
import { differenceOf, inShort } from "./words.js";

/** Fields that come from the content of a step, and where they are in it. */
const VALUES = {
  input: (content) => (content.kind === "tool" ? content.arguments : content.input),
  output: (content) => (content.kind === "tool" ? content.result : content.output),
  parameters: (content) => content.parameters,
  tools: (content) => content.tools,
};

/** Whether a field is shown by its content. */
export function isContent(name) {
  return name in VALUES;
}

/**
 * A place for the differences of a step, which are read when `open` is called.
 * @param {any} step
 * @param {{ runs: [string, string], signal: AbortSignal }} options
 */
export function contentDifference(step, { runs, signal }) {
  const place = h("div", { class: "content-diff" });
  let begun = false;
  async function open() {
    if (begun) return;
    begun = true;
    place.replaceChildren(h("p", { class: "quiet", role: "status" }, "Reading both …"));
    try {
      const [a, b] = await Promise.all([
        readContent(runs[0], step.a, { signal }),
        readContent(runs[1], step.b, { signal }),
      ]);
      const fields = Object.entries(step.fields).filter(([name]) => isContent(name));
      place.replaceChildren(...fields.map(([name, change]) => fieldOf(name, change, a, b, signal)));
    } catch (error) {
      if (signal.aborted) return;
      begun = false;
      place.replaceChildren(failure(error, open));
    }
  }
  return { element: place, open };
}

function fieldOf(name, change, a, b, signal) {
  const heading = h(
    "h3",
    {},
    plain(name),
    change.keys?.changed?.length ? h("span", { class: "quiet" }, ` ${change.keys.changed.map(plain).join(", ")}`) : "",
  );
  const others = change.messages ? change.others : change;
  return h(
    "div",
    { role: "group", "aria-label": `Differences of ${plain(name)}` },
    heading,
    others && difference(otherText(VALUES[name](a), others), otherText(VALUES[name](b), others), others.fresh),
    change.messages && messagesOf(change.messages, messagesIn(a, name), messagesIn(b, name), signal),
  );
}

function messagesIn(content, name) {
  return content[content.kind === "value" ? `${name}_messages` : name] ?? [];
}

/** A value as text, without the field whose messages are compared one by one. */
function otherText(value, { without }) {
  if (without == null) return valueText(value);
  const { [without]: _, ...others } = structureOf(value) ?? {};
  return valueText(others);
}

function messagesOf(changes, a, b, signal) {
  const list = h("div", { class: "messages" });
  inChunks(changes, (each) => list.append(changeOf(each, a, b, signal)), signal);
  return list;
}

function changeOf(each, a, b, signal) {
  if (each.change === "same") {
    const inside = () => {
      const place = h("div", { class: "messages" });
      const same = b.slice(each.b.at, each.b.at + each.count);
      const { fresh } = turnsOf({ kind: "model", input: same });
      inChunks(fresh, (turn) => place.append(messageOf(turn, { signal })), signal);
      return place;
    };
    return folding(`${several(each.count, "message")}, the same`, inside, { open: false, kind: "same-messages" });
  }
  const [one, other] = [each.a && a[each.a.at], each.b && b[each.b.at]];
  const said = { added: "only in B", removed: "only in A", changed: "changed" }[each.change];
  return h(
    "article",
    { class: `message diff-message d-${each.change}` },
    h("header", {}, h("h4", {}, plain((each.b ?? each.a).role)), h("span", { class: "quiet" }, said)),
    difference(one ? wholeText(one) : "", other ? wholeText(other) : "", each.fresh),
  );
}

/** Two texts as one, with what was inserted and deleted marked. */
function difference(a, b, fresh = []) {
  const parts = differenceOf(a, b, fresh);
  if (parts === null) return [block("A", a, { laidOut: false }), block("B", b, { laidOut: false })];
  const place = h("pre", { class: "words" });
  const draw = (shown) =>
    place.replaceChildren(
      ...shown.map(([kind, text]) =>
        kind === "gap"
          ? button(`… ${count(text)} characters, the same …`, () => draw(parts), { class: "small" })
          : h({ added: "ins", removed: "del" }[kind] ?? "span", {}, plain(text)),
      ),
    );
  draw(inShort(parts));
  return place;
}
