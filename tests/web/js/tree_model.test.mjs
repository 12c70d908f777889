import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../collector/tracereel_collector/web/", import.meta.url);
const { find, hintOf, openAtFirst, rangesOf } = await import(new URL("content/tree_model.js", web));
const { beginning, slicesOf } = await import(new URL("content/slices.js", web));
const { scoreOf, scoresOf } = await import(new URL("content/score_model.js", web));
const { widthOf, widthsOf } = await import(new URL("run/panel_width.js", web));

test("keys and values are found in order, whatever their case", () => {
  const value = { name: "Lima", list: [1, { LIMA: null }, "in lima"], proto: JSON.parse('{"__proto__": "lima"}') };
  assert.deepEqual(find(value, "lima").hits, [["name"], ["list", 1, "LIMA"], ["list", 2], ["proto", "__proto__"]]);
  assert.deepEqual(find("lima", "im"), { hits: [[]], more: false });
});

test("a search ends at its limits and says so", () => {
  assert.deepEqual(find(Array(50).fill("x"), "x", { most: 3 }), { hits: [[0], [1], [2]], more: true });
  assert.equal(find(Array(5000).fill(0), "x", { nodes: 100 }).more, true);
  let deep = "x";
  for (let at = 0; at < 100_000; at += 1) deep = [deep];
  assert.equal(find(deep, "x").hits[0].length, 100_000);
});

test("long lists are divided into pages, very long ones into pages of pages", () => {
  assert.equal(rangesOf(0, 100), null);
  assert.deepEqual(rangesOf(0, 250), [[0, 100], [100, 200], [200, 250]]);
  const outer = rangesOf(0, 1_000_000);
  assert.equal(outer.length, 100);
  assert.deepEqual(rangesOf(...outer[0])[1], [100, 200]);
});

test("a tree opens as far as it fits", () => {
  const small = { a: { b: [1, 2] } };
  assert.deepEqual(openAtFirst(small, 10), new Set([small, small.a, small.a.b]));
  const large = { a: Array(500).fill({}), b: { c: 1 } };
  assert.deepEqual(openAtFirst(large, 10), new Set([large, large.b]));
});

test("a folded branch says what is inside", () => {
  assert.equal(hintOf([1]), "1 item");
  assert.equal(hintOf(Array(1200)), "1,200 items");
  assert.equal(hintOf({}), "nothing");
  assert.equal(hintOf({ a: 1, b: 2 }), "a, b");
  assert.equal(hintOf({ a: 1, b: 2, c: 3, d: 4, e: 5 }), "a, b, c, d … 5 keys");
});

test("slices joined are the text, and no character is halved", () => {
  for (const text of ["", "a", "line\n".repeat(20_000), "😀".repeat(30_000), "x".repeat(40_001)]) {
    const slices = slicesOf(text);
    assert.equal(slices.join(""), text);
    for (const slice of slices) assert.ok(slice.isWellFormed?.() ?? true);
    assert.ok(slices.every((slice) => slice.length <= 16_000));
  }
});

test("the beginning of a text ends with a line or a word", () => {
  assert.equal(beginning("short", 6_000), "short");
  assert.equal(beginning("word ".repeat(5_000), 6_000).length, 6_000);
  assert.ok(beginning("😀".repeat(9_000), 5_999).length === 5_998);
  assert.equal(beginning("y".repeat(6_100), 6_000).length, 6_100);
});

test("scores belong to a step by span or execution, the others to the run", () => {
  const scores = [{ span_id: "s1" }, { execution_id: "e1" }, { span_id: "", execution_id: "" }, { span_id: "s2" }];
  assert.deepEqual(scoresOf(scores, { step: "s1", executions: ["e1"] }), scores.slice(0, 2));
  assert.deepEqual(scoresOf(scores, {}), [scores[2]]);
});

test("a value in the form is a number, true or false, or a word", () => {
  const given = (value) => scoreOf({ name: " ok ", value, comment: "" }, { trace: "t", step: "s" });
  assert.deepEqual(given("0.5"), { trace_id: "t", name: "ok", source: "person", span_id: "s", value: 0.5 });
  assert.equal(given("True").value, true);
  assert.equal(given("good").value, "good");
  assert.equal("value" in given("  "), false);
});

test("the panel keeps its width where there is room for it", () => {
  assert.equal(widthOf(700, 1440), 700);
  assert.equal(widthOf(5_000, 1440), widthsOf(1440).most);
  assert.equal(widthOf(10, 1440), 300);
  assert.equal(widthOf(null, 1440), widthsOf(1440).usual);
});
