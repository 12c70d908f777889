import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../collector/tracereel_collector/web/", import.meta.url);
const { hitsIn, isEmpty, matches, pieces, wantedOf } = await import(new URL("shell/hits.js", web));

test("words and phrases are read as the collector reads them", () => {
  assert.deepEqual(wantedOf('DHL "not Delivered" dhl, ñandú'), {
    phrases: ["not delivered"],
    words: ["dhl", "ñandú"],
  });
  assert.ok(isEmpty(wantedOf(" -- ")));
});

test("only whole words are hits", () => {
  assert.deepEqual(hitsIn("climate in Lima, lima!", wantedOf("lima")), [[11, 15], [17, 21]]);
});

test("parts of words are hits when asked for", () => {
  assert.deepEqual(hitsIn("climate in Lima", wantedOf("lima"), { whole: false }), [[1, 5], [11, 15]]);
});

test("hits that overlap are one, and there are at most so many", () => {
  assert.deepEqual(hitsIn("not delivered", wantedOf('"not delivered" delivered')), [[0, 13]]);
  assert.equal(hitsIn("a ".repeat(5000), wantedOf("a"), { most: 10 }).length, 10);
});

test("all words must be there, or one", () => {
  const wanted = wantedOf("parcel lost");
  assert.ok(matches("the parcel is lost", wanted));
  assert.ok(!matches("the parcels were lost", wanted));
  assert.ok(matches("the parcels were lost", wanted, { whole: false }));
  assert.ok(matches("a parcel", wanted, { some: true }));
});

test("a text in pieces is the text", () => {
  const text = "The PARCEL is lost";
  const made = pieces(text, wantedOf("parcel"));
  assert.deepEqual(made, [["The ", false], ["PARCEL", true], [" is lost", false]]);
});
