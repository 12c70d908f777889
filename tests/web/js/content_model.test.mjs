import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../collector/tracereel_collector/web/", import.meta.url);
const {
  aroundCuts, askedAndAnswered, fileLine, imageAddress, messagesOfState, pairsOf, sizeOf, structureOf, textOf, turnsOf,
} = await import(new URL("content/model.js", web));

const text = (role, said) => ({ role, parts: [{ type: "text", text: said }] });
const call = (id, name = "search") => ({ type: "tool_call", id, name, value: { q: "x" } });
const result = (id, value = 1) => ({ type: "tool_result", id, value });

test("a tool call stands with its result, and the message of results alone is gone", () => {
  const content = {
    kind: "model",
    input: [
      text("user", "hi"),
      { role: "assistant", parts: [call("a"), call("b")] },
      { role: "tool", parts: [result("b", 2), result("a", 1)] },
    ],
    output: [text("assistant", "done")],
  };
  const { earlier, fresh, output } = turnsOf(content);

  assert.equal(earlier.length, 0);
  assert.deepEqual(fresh.map((turn) => turn.message.role), ["user", "assistant"]);
  assert.deepEqual(fresh[1].pieces.map((piece) => [piece.part.id, piece.result.value]), [["a", 1], ["b", 2]]);
  assert.equal(output[0].pieces[0].part.text, "done");
});

test("a new result of an earlier call is new, and says what was called", () => {
  const input = [text("user", "hi"), { role: "assistant", parts: [call("a")] }, { role: "tool", parts: [result("a")] }];
  const { earlier, fresh } = turnsOf({ kind: "model", input, earlier: 2 });

  assert.equal(earlier.length, 2);
  assert.equal(earlier[1].pieces[0].result, undefined);
  assert.equal(fresh.length, 1);
  assert.equal(fresh[0].pieces[0].call.name, "search");
});

test("results without an id belong to the calls of their name in the latest message, in order", () => {
  const [lost, first, second, other] = [call(), call(), call(), call(undefined, "other")];
  const answers = [1, 2].map((value) => ({ type: "tool_result", name: "search", value }));
  const pairs = pairsOf([
    { role: "assistant", parts: [lost] },
    { role: "assistant", parts: [first, second, other] },
    { role: "tool", parts: answers },
  ]);

  assert.deepEqual(answers.map((each) => pairs.get(each)), [first, second]);
  assert.equal(pairs.get(first), answers[0]);
  assert.equal(pairs.has(lost) || pairs.has(other), false);
});

test("two results of one id are both shown", () => {
  const input = [{ role: "assistant", parts: [call("a")] }, { role: "tool", parts: [result("a", 1), result("a", 2)] }];
  const { fresh } = turnsOf({ kind: "model", input });

  assert.equal(fresh[0].pieces[0].result.value, 1);
  assert.equal(fresh[1].pieces[0].part.value, 2);
});

test("more earlier messages than there are is all of them", () => {
  assert.equal(turnsOf({ kind: "model", input: [text("user", "hi")], earlier: 7 }).earlier.length, 1);
});

test("removed messages are named where they were", () => {
  const input = [text("user", "a"), text("user", "b"), text("user", "c")];
  const cut = { length: 40, removed: 37, at: 2 };

  assert.deepEqual(turnsOf({ kind: "model", input, cut }).fresh.map((turn) => turn.after), [undefined, undefined, cut]);
});

test("a cut is named in its place in the text", () => {
  const cut = { length: 20_000, removed: 12_345 };
  assert.deepEqual(aroundCuts("a…[12345 characters removed]…b", cut), [
    "a",
    { removed: "… 12,345 characters removed" },
    "b",
  ]);
  assert.deepEqual(aroundCuts("a", cut), ["a", { removed: "… 12,345 characters removed, of 20,000" }]);
  // A text that only says so was not cut.
  assert.deepEqual(aroundCuts("a…[5 characters removed]…b"), ["a…[5 characters removed]…b"]);
});

test("only base64 of raster images becomes an image", () => {
  const image = (media_type, data) => imageAddress({ type: "image", media_type, data });
  assert.equal(image("image/png", "iVBORw0KGgo="), "data:image/png;base64,iVBORw0KGgo=");
  assert.equal(image("IMAGE/JPEG", "_9j-"), "data:image/jpeg;base64,/9j+");
  for (const media of ["image/svg+xml", "text/html", "image/png;x", undefined])
    assert.equal(image(media, "iVBO"), null);
  for (const data of ["https://evil.example/x.png", "iV BO", "", undefined, '"onerror=1']) {
    assert.equal(image("image/png", data), null);
  }
  assert.equal(imageAddress({ type: "file", media_type: "image/png", data: "iVBO" }), null);
});

test("a file is one line with its size", () => {
  assert.equal(sizeOf({ type: "file", data: "QUJDRA==" }), 4);
  assert.equal(fileLine({ type: "file", name: "a.pdf", media_type: "application/pdf", size: 1234 }),
    "File · a.pdf · application/pdf · 1,234 bytes");
});

test("the copied text of a message has all of its parts", () => {
  const message = { role: "assistant", parts: [{ type: "text", text: "a" }, call("x"), { type: "data", value: [1] }] };
  assert.equal(textOf(message), 'a\n\nsearch({\n  "q": "x"\n})\n\n[\n  1\n]');
});

test("text that is JSON is read as what it is, other text is not", () => {
  assert.deepEqual(structureOf(' {"a": [1]} '), { a: [1] });
  for (const other of ["{not json}", "[1] and more", "12", "null", "", 7, null]) assert.equal(structureOf(other), null);
});

test("question and answer of every kind", () => {
  const model = {
    kind: "model",
    input: [text("user", "q1"), text("assistant", "…"), text("user", "q2")],
    output: [text("assistant", "a")],
  };
  assert.deepEqual(askedAndAnswered(model), { asked: "q2", answered: "a" });
  assert.deepEqual(askedAndAnswered({ kind: "tool", arguments: { a: 1 }, result: 2 }), {
    asked: { a: 1 },
    answered: 2,
  });
  assert.deepEqual(askedAndAnswered({ kind: "value", asked: "q", input: { q: "q" }, output: 3 }), {
    asked: "q",
    answered: 3,
  });
});

test("a state that went in and came out is one conversation", () => {
  const asked = text("user", "A?");
  const answer = text("assistant", "B.");
  assert.deepEqual(messagesOfState({ kind: "value" }), []);
  assert.deepEqual(messagesOfState({ kind: "value", input_messages: [asked] }), [asked]);
  const parts = { input_messages: [asked], output_messages: [answer] };
  assert.deepEqual(messagesOfState({ kind: "value", ...parts }), [asked, answer]);
  const whole = [text("user", "A?"), answer];
  assert.equal(messagesOfState({ kind: "value", input_messages: [asked], output_messages: whole }), whole);
});
