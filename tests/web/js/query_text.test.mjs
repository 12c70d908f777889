import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../collector/tracereel_collector/web/", import.meta.url);
const { NAMES, mayBeId, namesFor, parse, unfinished, written } = await import(new URL("runs/query_text.js", web));

const read = (text) => {
  const { words, filters, problem } = parse(text);
  return [words, Object.fromEntries(filters), problem];
};

test("words and filters stand in one text", () => {
  assert.deepEqual(read('refund user:ana status:failed "not delivered"'), [
    'refund "not delivered"',
    { user: "ana", status: "failed" },
    null,
  ]);
});

test("a value in quotes may have spaces", () => {
  assert.deepEqual(read('agent:"travel desk" x'), ["x", { agent: "travel desk" }, null]);
});

test("numbers have a bound and a unit", () => {
  assert.deepEqual(read("cost:>0.1 duration:<2s tokens:>=10k confidence:<50% errors:>1"), [
    "",
    { min_cost_usd: "0.1", max_duration_ms: "2000", min_tokens: "10000", max_confidence: "0.5", min_errors: "1" },
    null,
  ]);
});

test("a score is a name, a bound, or both", () => {
  assert.deepEqual(read("score:correct score:<0.5"), ["", { score: "correct", max_score: "0.5" }, null]);
});

test("an address and other colons are words", () => {
  assert.deepEqual(read("https://a.b:8080/c 12:30 constructor:x"), [
    "https://a.b:8080/c 12:30 constructor:x",
    {},
    null,
  ]);
});

test("an invalid filter is named with what is expected", () => {
  assert.match(parse("cost:much").problem, /Invalid filter cost:much \(in dollars/);
  assert.match(parse("errors:<3").problem, /Invalid filter errors:<3/);
  assert.match(parse("user:").problem, /user: has no value/);
  assert.match(parse("agent:>3").problem, /agent is not a number/);
});

test("every parameter of the search has a name", async () => {
  const { FILTERS } = await import(new URL("runs/parameters.js", web));
  const known = Object.values(NAMES).flatMap(({ of, range, least }) => [
    of,
    range && `min_${range}`,
    range && !least && `max_${range}`,
  ]);
  assert.deepEqual(FILTERS.filter((name) => !known.includes(name)), []);
});

test("the id of a run is recognised, a word is not", () => {
  for (const id of ["trc_main_abc123", "6d67b4d8a42bf30d2f19441803a010a1", "order-4711-x"]) assert.ok(mayBeId(id), id);
  for (const text of ["refund", "two words 123", "user:ana12345", "cost:>100000"]) assert.ok(!mayBeId(text), text);
});

test("what is being written is found at the caret", () => {
  assert.deepEqual(unfinished("refund us", 9), { start: 7, name: null, value: "us" });
  assert.deepEqual(unfinished("refund user:an x", 14), { start: 7, name: "user", value: "an" });
  assert.deepEqual(unfinished('agent:"travel d', 15), { start: 0, name: "agent", value: "travel d" });
});

test("names that begin as written come first", () => {
  assert.deepEqual(namesFor("us"), ["user", "status"]);
  assert.equal(namesFor("sc")[0], "score");
  assert.equal(written("agent", "travel desk"), 'agent:"travel desk"');
});
