"""Modules of the page in one file do what they do one by one."""

import shutil
import subprocess

import pytest

from tracereel_collector.http.page_bundle import PageBundleError, join_modules, join_styles

NODE = shutil.which("node")
MODULES = {
    "app.js": """
import { twice as double } from "./shell/sums.js";
import * as sums from "./shell/sums.js";
import "./effect.js";
import lib from "./vendor/lib.js";
const text = `
import nothing
`;
import("./run/view.js").then(({ show }) => show(double(4), sums.TWO, globalThis.effect, lib, text.length));
""",
    "effect.js": 'globalThis.effect = "effect";\n',
    "shell/sums.js": """
export const TWO = 2;
export function twice(value) {
  return value * TWO;
}
export async function later() {}
export class Sum {}
""",
    "run/view.js": """
import { TWO } from "../shell/sums.js";

export function show(...given) {
  console.log(JSON.stringify([TWO, ...given]));
}
""",
    "vendor/lib.js": "/*\nexport function unused() {}\n*/\nvar a=5;export{a as default};\n",
}


@pytest.mark.skipif(NODE is None, reason="Node is not installed")
def test_the_joined_file_does_what_the_modules_do(tmp_path):
    for path, text in MODULES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "joined.js").write_text(join_modules(MODULES, "app.js", str))

    def printed(name):
        return subprocess.run(
            [NODE, tmp_path / name], check=True, capture_output=True, text=True
        ).stdout

    assert printed("joined.js") == printed("app.js") == '[2,8,2,"effect",5,16]\n'


def test_a_worker_is_a_file_of_its_own():
    files = {"content/lexer.js": 'const made = new Worker("./reader.js", { type: "module" });\n'}

    joined = join_modules(files, "content/lexer.js", lambda path: f"/web/0/{path}")

    assert 'new Worker("/web/0/content/reader.js", { type: "module" })' in joined


def test_a_vendored_file_that_is_imported_lazily_stays_a_file_of_its_own():
    files = {"app.js": 'import("./vendor/lib.js");\n', "vendor/lib.js": MODULES["vendor/lib.js"]}

    joined = join_modules(files, "app.js", lambda path: f"/web/digest/{path}")

    assert 'import("/web/digest/vendor/lib.js");' in joined
    assert "var a" not in joined


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.js": 'import "./b.js";\n', "b.js": 'import "./a.js";\n'}, "a.js → b.js → a.js"),
        ({"a.js": 'import "./b.js";\n'}, "no module b.js"),
        ({"a.js": "export default 1;\n"}, "export default 1;"),
        ({"a.js": "export let count = 0;\n"}, "export let count = 0;"),
        ({"a.js": 'export { b } from "./b.js";\n'}, "export { b }"),
        ({"a.js": 'import { b } from "https://example.com/b.js";\n'}, "import { b }"),
        ({"a.js": 'import { b } from "./b.js"\n', "b.js": ""}, "import { b }"),
    ],
)
def test_a_form_that_is_not_understood_is_refused(files, message):
    with pytest.raises(PageBundleError) as refused:
        join_modules(files, "a.js", str)

    assert message in str(refused.value)


def test_style_sheets_are_joined_in_the_order_of_their_imports():
    files = {
        "s/page.css": '@import "b.css";\n@import "a.css";\n',
        "s/a.css": "a{}",
        "s/b.css": "b{}",
    }

    assert join_styles(files, "s/page.css") == "b{}\na{}\n"
