import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../collector/tracereel_collector/web/", import.meta.url);
const { Run } = await import(new URL("run/model.js", web));

function attempts(steps, options) {
  const made = steps.map(([depth, name, attempt], at) => ({ id: `s${at}`, depth, name, attempt, duration_ms: 1 }));
  const document = { steps: made, summary: {}, state: "success", time: "2026-11-16T02:00:00Z" };
  return new Run(document, options).steps.map(({ attempt }) => attempt ?? null);
}

test("a first attempt has a number only if there was a second one, or on request", () => {
  const steps = [[0, "desk"], [1, "plan", 1], [1, "price", 1], [1, "price", 2], [2, "plan", 1]];
  assert.deepEqual(attempts(steps), [null, null, 1, 2, null]);
  assert.deepEqual(attempts(steps, { all: true }), [null, 1, 1, 2, 1]);
});
