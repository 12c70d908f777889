"""Generated tests contain trace strings as data only."""

import ast
import json
import runpy
import tokenize
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tracereel.tape import Tape, TapeError
from tracereel.tape import format as tape_format
from tracereel.tape.export import export, relisted
from tracereel.tape.payloads import text_of

CODE = '"""\n__import__("os").system("touch canary")\n"""'
HOSTILE = (
    CODE,
    "'''\nraise SystemExit\n'''",
    '"]\nimport os\nos.system("x")\n#',
    "x\\",
    '\\"""',
    "{call}{0}{trace_id.__class__}",
    "../../../../tmp/x",
    "/etc/passwd",
    "a\rimport os",
    "a\x0cimport os\x0b\x1c\x85\u2028\u2029b",
    "\x00",
    "\ud800",
    "\u202e\u2066import os\u2069",
    "# -*- coding: utf-7 -*-",
    "+AAo-import os",
    "²٣ª",
    "\x1b]0;title\x07",
    "-",
    "",
    "x" * 5000,
)
texts = st.one_of(
    st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=()), max_size=40)
)


class Shape(ast.NodeTransformer):
    """Transformer that reduces a tree to the parts that do not come from the trace."""

    def visit_Constant(self, node: ast.Constant) -> Any:
        return ast.Constant(type(node.value).__name__)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.generic_visit(node)
        node.name = "test"
        return node

    def visit_List(self, node: ast.List) -> Any:
        assert all(isinstance(each, ast.Constant) for each in node.elts)
        return ast.List([], ast.Load())


def shape(source: str) -> str:
    return ast.dump(Shape().visit(ast.parse(source)))


EXPECTED = {
    raised: shape(
        f""""docstring"
{"from contextlib import suppress" if raised else ""}
import pytest
@pytest.mark.tracereel_tape("x")
def test(tape_run):
    {"with suppress(Exception): tape_run.call()" if raised else "tape_run.call()"}
    assert tape_run.report.identical, str(tape_run.report)
    assert [call.name for call in tape_run.original.boundaries()] == []
"""
    )
    for raised in (False, True)
}
COMMENTS = ("# The run began with ", "# make one like it, and name ", "# The recorded run raised ")


def tape_of(fields: dict[str, str], calls: list[str], raised: str | None) -> Tape:
    header: dict[str, Any] = {"r": "run", "n": 1, "object": True, "kind": "agent", "form": "sync"}
    records: list[dict[str, Any]] = [header | fields]
    for number, name in enumerate(["root", *calls], 1):
        kind = "tool" if number > 1 else "agent"
        opened = {"r": "open", "n": number, "p": min(number - 1, 1), "k": kind, "name": name}
        records.append({**opened, "c": "sync", "t": number, "a": "={}"})
    closed: dict[str, Any] = {"r": "closed", "how": "returned", "v": "=1"}
    if raised is not None:
        error = {"$": "exception", "c": raised, "args": [raised], "bases": [], "text": raised}
        closed = {"r": "closed", "how": "raised", "v": f"={text_of(error)}"}
    return tape_format.parse([{"tape_id": "t", "part": 0, "records": [*records, closed]}])


def check(source: bytes, calls: list[str], *, raised: bool) -> None:
    text = source.decode()
    assert shape(text) == EXPECTED[raised]
    listed = ast.parse(text).body[-1].body[-1].test.comparators[0]  # type: ignore[attr-defined]
    assert ast.literal_eval(listed) == calls
    for token in tokenize.tokenize(BytesIO(source).readline):
        if token.type == tokenize.COMMENT:
            assert token.string.startswith(COMMENTS), token.string
            assert token.string.isprintable()
    # Bidirectional marks would display another program than the one that runs.
    assert all(line.isprintable() for line in text.split("\n"))


@settings(max_examples=150, deadline=None)
@given(
    fields=st.fixed_dictionaries(
        {
            "name": texts,
            "trace_id": texts,
            "entry": texts,
            "folder": texts,
            "started": st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02", '"""', CODE]),
        }
    ),
    calls=st.lists(texts, max_size=5),
    raised=st.none() | texts,
    name=st.none() | texts,
)
@example(
    fields=dict.fromkeys(("name", "trace_id", "entry"), CODE) | {"started": "2026-01-02"},
    calls=[CODE, '"', "\\"],
    raised=CODE,
    name=None,
)
def test_a_generated_test_has_the_expected_nodes_whatever_the_trace_says(
    fields: dict[str, str], calls: list[str], raised: str | None, name: str | None
) -> None:
    # JSON holds no lone surrogates: the collector and files refuse them.
    fields, calls, raised = _as_sent([fields, calls, raised])
    with TemporaryDirectory() as place:
        folder = Path(place) / "inner" / "tests"
        try:
            tape = tape_of(fields, calls, raised)
            files = export(tape, folder, name=name)
        except TapeError:
            return
        written = [each for each in Path(place).rglob("*") if each.is_file()]
        assert sorted(written) == sorted([files.test, files.tape])
        assert {each.parent for each in written} == {folder}
        assert files.test.name.isascii()
        source = files.test.read_bytes()
        check(source, calls, raised=raised is not None)
        other = tape_of(fields, [*calls, CODE], raised)
        again = relisted(source.decode(), tape, other).encode()
        check(again, [*calls, CODE], raised=raised is not None)


RUNS = '__import__("os").system("touch canary")'


@pytest.mark.parametrize("code", [CODE, f"a:b\n    {RUNS}\n", f"a:b\r{RUNS}\r", f'")\n{RUNS}\n("'])
@pytest.mark.parametrize("field", ["name", "trace_id", "entry"])
def test_importing_a_generated_test_runs_nothing_of_the_trace(
    field: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"name": "shop", "trace_id": "abc", "entry": "a:b", "started": "2026-01-02T03:04:05Z"}
    monkeypatch.chdir(tmp_path)

    files = export(tape_of(fields | {field: code}, [], None), tmp_path / "tests", name="shop")
    runpy.run_path(str(files.test))

    assert not Path("canary").exists()


def test_invalid_time_is_not_written_into_a_generated_test(tmp_path: Path) -> None:
    fields = {"name": "shop", "trace_id": "abc", "entry": "a:b", "started": CODE}

    with pytest.raises(TapeError, match="is damaged"):
        export(tape_of(fields, [], None), tmp_path)
    assert list(tmp_path.iterdir()) == []


def _as_sent(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def test_export_does_not_overwrite_foreign_files(tmp_path: Path) -> None:
    own = tmp_path / "test_payments.py"
    own.write_text("def test_money(): ...\n")
    fields = {"name": "payments", "trace_id": "", "entry": "a:b", "started": "2026-01-02"}
    tape = tape_of(fields, [], None)

    with pytest.raises(TapeError, match="is no export"):
        export(tape, tmp_path)
    assert own.read_text() == "def test_money(): ...\n"
    files = export(tape, tmp_path, name="other")
    assert export(tape, tmp_path, name="other") == files
