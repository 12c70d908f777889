import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../collector/tracereel_collector/web/", import.meta.url);
globalThis.self ??= globalThis;
const { differenceOf, inShort, withIdsOf } = await import(new URL("compare/words.js", web));

const UUIDS = ["6f2c1c1e-6a4b-4a53-9d0a-000000000001", "0b9d3a77-1111-4222-8333-abcdefabcdef"];

test("inserted and deleted words are named", () => {
  assert.deepEqual(differenceOf("fly to Lima now", "fly to Quito now"), [
    ["same", "fly to "],
    ["removed", "Lima"],
    ["added", "Quito"],
    ["same", " now"],
  ]);
});

test("ids and times that are new in every run are no difference", () => {
  const said = (uuid, second, call) => `ticket ${uuid} at 2026-11-18T14:00:0${second}Z by ${call}`;
  const one = said(UUIDS[0], 1, "call_abc123def");
  const other = said(UUIDS[1], 2, "call_zzz999yyy");
  assert.equal(withIdsOf(one, other), one);
  assert.deepEqual(differenceOf(one, other), [["same", one]]);
});

test("one id more is a difference", () => {
  const parts = differenceOf(`a ${UUIDS[0]}`, `a ${UUIDS[0]} ${UUIDS[1]}`);
  assert.equal(parts.filter(([kind]) => kind === "added").map(([, text]) => text).join("").trim(), UUIDS[1]);
});

test("a day, a card number and words stay as they are", () => {
  for (const text of ["2026-11-18", "4111111111111111", "call_center_agent"]) assert.equal(withIdsOf("x", text), text);
});

test("long parts that are the same are shortened, and say by how much", () => {
  const long = "x".repeat(5_000);
  const short = inShort([["same", long], ["added", "y"], ["same", long]]);
  assert.deepEqual(short.map(([kind, text]) => [kind, kind === "gap" ? text : text.length]), [
    ["gap", 4_840],
    ["same", 160],
    ["added", 1],
    ["same", 160],
    ["gap", 4_840],
  ]);
});
