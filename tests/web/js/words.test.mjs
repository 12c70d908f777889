import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../collector/tracereel_collector/web/", import.meta.url);
const words = await import(new URL("shell/words.js", web));

test("agents of one run never share a colour as long as there are enough", () => {
  for (let run = 0; run < 200; run++) {
    const names = Array.from({ length: 12 }, (_, at) => `agent_${run}_${at}`);
    assert.equal(new Set(words.coloursOf(names).values()).size, 12);
  }
});

test("a colour depends on the names and not on their order", () => {
  const names = ["planner", "parser", "writer", "critic", "router"];
  const turned = [...names].reverse();
  assert.deepEqual(words.coloursOf(names), words.coloursOf(turned));
});

test("six agents have colours of the six that differ most", () => {
  const slots = [...words.coloursOf(["a", "b", "c", "d", "e", "f"]).values()];
  assert.ok(slots.every((slot) => slot < 6));
});

test("more agents than colours still have one each", () => {
  const made = words.coloursOf(Array.from({ length: 40 }, (_, at) => `agent ${at}`));
  assert.equal(made.size, 40);
  assert.ok([...made.values()].every((slot) => slot >= 0 && slot < 12));
});

test("durations are short and exact where it matters", () => {
  const cases = [
    [0, "0 ms"],
    [0.001, "<0.01 ms"],
    [1.25, "1.3 ms"],
    [999.6, "1.00 s"],
    [61_000, "1 m 1 s"],
    [-5, "−5.0 ms"],
  ];
  for (const [ms, text] of cases) assert.equal(words.duration(ms), text);
});

test("control and direction characters are visible and harmless", () => {
  assert.equal(words.plain("a\u0000b\u202ec"), "a␣b␣c");
});

test("tokens without a price are a share of all, with the remedy", () => {
  const row = { tokens: 200, unpriced_tokens: 50, unpriced_models: ["gpt-x", "our‮model"] };
  assert.equal(words.unpriced(row), "25 % unpriced");
  assert.equal(words.unpriced({ tokens: 200, unpriced_tokens: 0, unpriced_models: [] }), "");
  assert.equal(words.unpriced({ tokens: null, unpriced_tokens: 7, unpriced_models: ["x"] }), "100 % unpriced");
  assert.match(words.priceRemedy(row), /^No price for gpt-x, .*: add one/);
  assert.ok(!words.priceRemedy(row).includes("‮"));
});
