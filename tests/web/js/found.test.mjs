import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../collector/tracereel_collector/web/", import.meta.url);
const { Found } = await import(new URL("run/found.js", web));
const { wantedOf } = await import(new URL("shell/hits.js", web));

function found(text, steps) {
  const made = new Found(wantedOf(text));
  for (const [step, ...values] of steps) for (const value of values) made.add(step, value);
  const { steps: best, whole } = made.best();
  return [[...best], whole];
}

test("whole words win over parts of words", () => {
  assert.deepEqual(found("lima", [["a", "the climate"], ["b", { messages: [{ content: "to Lima" }] }]]), [["b"], true]);
});

test("parts of words are found if there are no whole ones", () => {
  assert.deepEqual(found("limat", [["a", "the climate"], ["b", "to Lima"]]), [["a"], false]);
});

test("all words of one step may stand in several of its texts", () => {
  assert.deepEqual(found("parcel lost", [["a", "parcel"], ["b", "a parcel", ["is lost"]]]), [["b"], true]);
});

test("if no step has all words, those with some are found", () => {
  assert.deepEqual(found("parcel lost", [["a", "parcel"], ["b", "lost"], ["c", "x"]]), [["a", "b"], true]);
});

test("names of fields are not searched, and nothing is found in nothing", () => {
  assert.deepEqual(found("status", [["a", { status: "ok" }]]), [[], true]);
});

test("words in JSON that is text are found as they are shown", () => {
  const sent = JSON.stringify([{ role: "user", content: "first\nLima, se\u00f1al" }]).replace("\u00f1", "\\u00f1");
  assert.deepEqual(found("lima señal", [["a", { "gen_ai.input.messages": sent }]]), [["a"], true]);
});
