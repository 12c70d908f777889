import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../collector/tracereel_collector/web/", import.meta.url);
const { Lexer } = await import(new URL("vendor/marked.esm.js", web));
const { ELEMENTS, nodesOf, sizeOf, webAddress } = await import(new URL("content/markdown.js", web));

const read = (text) => nodesOf(new Lexer({ gfm: true }).lex(text));

/** All element names and texts of a tree. */
function parts(nodes, found = { names: new Set(), text: "", links: [] }) {
  for (const node of nodes) {
    if (typeof node === "string") found.text += node;
    else {
      found.names.add(node[0]);
      if (node[0] === "a") found.links.push(node[1].href);
      parts(node.slice(2), found);
    }
  }
  return found;
}

test("headings, lists, tables, quotes, code and emphasis are elements", () => {
  const { names, text } = parts(read(
    "# T\n\n*e* **s** ~~d~~ `c`\n\n- a\n- b\n\n3. x\n\n| h |\n|--:|\n| 1 |\n\n> q\n\n```js\n1 < 2\n```\n\n---\n",
  ));
  for (const name of [
    "h",
    "em",
    "strong",
    "del",
    "code",
    "ul",
    "ol",
    "table",
    "th",
    "td",
    "blockquote",
    "block",
    "hr",
  ]) {
    assert.ok(names.has(name), name);
  }
  assert.ok(text.includes("1 < 2"));
  for (const name of names) assert.ok(ELEMENTS.has(name), name);
});

test("tasks, numbers of lists and the side of columns are kept", () => {
  assert.deepEqual(read("3. x")[0][1], { start: "3" });
  assert.deepEqual(read("| a |\n|--:|\n| 1 |")[0][3][2][2][1], { align: "right" });
  assert.equal(parts(read("- [x] done\n- [ ] open")).text.replaceAll(/\s+/g, " "), "☑ done☐ open");
});

test("HTML stays text", () => {
  const { names, text } = parts(read("<img src=x onerror=1>\n\n<script>x</script> a <b>c</b>"));
  assert.deepEqual([...names], ["p"]);
  assert.ok(text.includes("<img src=x onerror=1>") && text.includes("<script>x</script>") && text.includes("<b>c</b>"));
});

test("only addresses of the web are links, and their address is shown", () => {
  const found = parts(
    read(
      "[a](javascript:alert(1)) [b](https://x.example/p) <javascript:alert(2)> [c](data:text/html,x)" +
        " [d](//evil.example)" +
        " [e](/v1/keys) ![f](https://x.example/i.png) [g](vbscript:x) [h](JaVaScRiPt:x) [i](https://u:p@x.example)",
    ),
  );
  assert.deepEqual(found.links, ["https://x.example/p"]);
  for (const said of ["javascript:alert(1)", "https://x.example/p", "data:text/html,x", "//evil.example", "i.png"]) {
    assert.ok(found.text.includes(said), said);
  }
});

test("an address that is its own text is not shown twice", () => {
  assert.equal(parts(read("see https://x.example/a now")).text, "see https://x.example/a now");
  assert.equal(webAddress("https://x.example"), "https://x.example/");
  assert.equal(webAddress("x.example"), null);
});

test("character references are the characters, once", () => {
  assert.equal(parts(read("a &amp; b &lt;i&gt; &amp;lt;")).text, "a & b <i> &lt;");
  assert.equal(parts(read("`&amp;`")).text, "&amp;");
});

test("no word is lost", () => {
  const text =
    "# one\ntwo [three](four) five\n\n- six\n  - seven\n\n> eight\n\n    nine\n\n" +
    "[ten]: https://x.example\n\n<p>eleven\n\ntwelve\\*";
  const said = parts(read(text)).text;
  for (const word of text.match(/[a-z]+/g)) assert.ok(said.includes(word), word);
});

test("what is nested deeply stays as it was written", () => {
  const nodes = read(`${"> ".repeat(60)}deep`);
  assert.ok(parts(nodes).text.includes("deep"));
  assert.ok(sizeOf(nodes) < 40);
});
