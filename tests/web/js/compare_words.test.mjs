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

test("ids that the collector aligned are no difference", () => {
  const said = (uuid, call) => `ticket ${uuid} by ${call}, ${uuid}`;
  const one = said(UUIDS[0], "call_abc123def");
  const other = said(UUIDS[1], "call_zzz999yyy");
  const fresh = [[UUIDS[0], UUIDS[1]], ["call_abc123def", "call_zzz999yyy"]];
  assert.equal(withIdsOf(other, fresh), one);
  assert.deepEqual(differenceOf(one, other, fresh), [["same", one]]);
  assert.notDeepEqual(differenceOf(one, other), [["same", one]]);
});

test("ids that change places are each replaced once", () => {
  const fresh = [["call_a1", "call_b1"], ["call_b1", "call_a1"], ["x", "call_a12"]];
  assert.equal(withIdsOf("call_b1 call_a1 call_a12", fresh), "call_a1 call_b1 x");
  assert.equal(withIdsOf("text", [["x", ""]]), "text");
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
