"""Tapes are untrusted: limits on imports, calls, rebuilt values, patterns and output."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Self

import pytest

import tracereel
from tests.sdk.conftest import SDK
from tests.support.replay_trial import recording
from tracereel import traced_agent, traced_tool
from tracereel.cli import main
from tracereel.demo.appointment import create_appointment
from tracereel.redaction import Redaction, Rule
from tracereel.tape import Tape, TapeError, codec, load, payloads
from tracereel.tape import format as tape_format
from tracereel.tape.codec import UndecodableError
from tracereel.tape.entry import entry_point
from tracereel.tape.export import export, redacted

HERE = __name__
CALLED: list[str] = []


@traced_tool("look", effect="read")
def look(text: str) -> str:
    return text.upper()


@traced_agent("clerk")
def clerk(text: str) -> str:
    return look(text)


def plain(text: str) -> str:
    """Function of the project without our decorators."""
    CALLED.append(text)
    return look(text)


def untraced(text: str) -> str:
    """Function that makes no recorded call."""
    return text


class Holder:
    """Object that runs code on every attribute access."""

    @property
    def lazy(self) -> Any:
        CALLED.append("property")
        return clerk

    def __getattr__(self, name: str) -> Any:
        CALLED.append(name)
        return clerk


HOLDER = Holder()


def changed(tape: Tape, **header: Any) -> Tape:
    records = [{**each, **header} if each["r"] == "run" else each for each in tape.records]
    return tape_format.parse([{"tape_id": tape.tape_id, "part": 0, "records": records}])


def called_as(tape: Tape, entry: str, **arguments: Any) -> Tape:
    """Return a tape that claims to start with a call of `entry` with these arguments."""
    told = f"={json.dumps(arguments)}"
    records = [
        {**each, "a": told} if each["r"] == "open" else each
        for each in changed(tape, entry=entry).records
    ]
    return tape_format.parse([{"tape_id": "t", "part": 0, "records": records}])


@pytest.fixture
def tape(taped: Any) -> Tape:
    CALLED.clear()
    _, made = taped(lambda: clerk("hello"))
    found: Tape = made
    return found


@pytest.mark.parametrize(
    "entry",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:exec",
        "shutil:rmtree",
        f"{HERE}:plain",
        f"{HERE}:Holder",
        f"{HERE}:os.system",
        f"{HERE}:HOLDER.lazy",
        f"{HERE}:HOLDER.anything",
        f"{HERE}:clerk.__wrapped__",
        f"{HERE}:clerk.__call__",
        f"{HERE}:tracereel.configure",
    ],
)
def test_only_decorated_functions_are_called_because_a_tape_names_them(
    entry: str, tape: Tape, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.tape.ndjson"
    changed(tape, entry=entry).save(file)

    assert main(["replay", str(file), "--run"]) == 1
    assert "result:" not in capsys.readouterr().out
    with pytest.raises(TapeError), tracereel.replay(load(file)) as run:
        run.call()
    assert CALLED == []


@pytest.mark.parametrize(
    ("entry", "arguments"),
    [
        ("os:system", {"command": "touch canary"}),
        (f"{HERE}:os.system", {"command": "touch canary"}),
        ("subprocess:call", {"args": ["touch", "canary"]}),
        ("shutil:copyfile", {"src": __file__, "dst": "canary"}),
    ],
)
def test_no_function_of_others_is_called_with_arguments_that_fit_it(
    entry: str,
    arguments: dict[str, Any],
    tape: Tape,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "run.tape.ndjson"
    called_as(tape, entry, **arguments).save(file)
    monkeypatch.chdir(tmp_path)

    status = main(["replay", str(file), "--run"])

    assert not Path("canary").exists()
    assert status == 1


def test_a_function_that_a_person_names_is_called(
    tape: Tape, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.tape.ndjson"
    changed(tape, entry=f"{HERE}:plain").save(file)

    assert main(["replay", str(file), "--run"]) == 1
    refused = capsys.readouterr().err
    assert f"name it yourself: --run {HERE}:plain" in refused
    main(["replay", str(file), "--run", f"{HERE}:plain", "--mode", "report"])
    assert CALLED == ["hello"]
    capsys.readouterr()
    assert main(["replay", str(file), "--run", f"{HERE}:untraced", "--fork"]) == 1
    assert "no tape in this fork" in capsys.readouterr().err


PROGRAM = """
import os
from pathlib import Path

from tracereel import traced_agent

Path(os.environ["CANARY"]).write_text("imported")


@traced_agent("planted")
def run(text):
    return text
"""
PLACES = (
    "elsewhere/planted.py",
    "here/.venv/lib/planted.py",
    "here/env/planted.py",
    "here/lib/site-packages/planted.py",
    "here/.cache/planted.py",
    "here/env/lib/python3.11/planted.py",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["on the path", "as the folder of the tape"])
def test_no_module_outside_of_the_project_is_imported_because_a_tape_names_it(
    place: str, how: str, tape: Tape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    monkeypatch.setenv("CANARY", str(canary))
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    file.write_text(PROGRAM)
    (tmp_path / "here").mkdir(exist_ok=True)
    if file.parent.name == "env":
        (file.parent / "pyvenv.cfg").write_text("home = /usr/bin")
    monkeypatch.chdir(tmp_path / "here")
    if how == "on the path":
        monkeypatch.syspath_prepend(str(file.parent))
    folder = os.path.relpath(file.parent) if how != "on the path" else ""

    with pytest.raises(TapeError, match=r"not part of the project|there is no module"):
        entry_point(changed(tape, entry="planted:run", folder=folder))
    with pytest.raises(TapeError):
        entry_point(changed(tape, entry="planted:run", folder=str(file.parent)))

    assert not canary.exists()
    assert "planted" not in sys.modules


def test_a_package_outside_of_the_project_is_not_imported_on_the_way_to_a_module(
    tape: Tape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    monkeypatch.setenv("CANARY", str(canary))
    (tmp_path / "outside" / "planted_package").mkdir(parents=True)
    (tmp_path / "outside" / "planted_package" / "__init__.py").write_text(PROGRAM)
    (tmp_path / "outside" / "planted_package" / "inner.py").write_text(PROGRAM)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(str(tmp_path / "outside"))

    with pytest.raises(TapeError, match="not part of the project"):
        entry_point(changed(tape, entry="planted_package.inner:run"))
    assert not canary.exists()
    monkeypatch.setenv("TRACEREEL_REPLAY_MODULES", "another, planted_package")
    said: list[str] = []
    found = entry_point(
        changed(tape, entry="planted_package.inner:run", name="planted"), said.append
    )

    assert found("x") == "x"
    file = tmp_path / "outside" / "planted_package" / "inner.py"
    assert said == [f"importing planted_package.inner from {file}, which the tape names"]


@pytest.mark.parametrize("name", ["antigravity", "this", "idlelib.idle", "turtledemo.clock"])
def test_no_module_of_the_standard_library_is_imported_because_a_tape_names_it(
    name: str, tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.delitem(sys.modules, name, raising=False)

    with pytest.raises(TapeError):
        entry_point(changed(tape, entry=f"{name}:run"))
    assert name not in sys.modules


def test_modules_of_the_project_and_of_the_demo_are_imported(
    tape: Tape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", str(tmp_path / "canary"))
    (tmp_path / "src" / "own_project").mkdir(parents=True)
    (tmp_path / "src" / "own_project" / "work.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)

    found = entry_point(changed(tape, entry="own_project.work:run", folder="src", name="planted"))
    assert found("x") == "x"
    kind, name = create_appointment.__dict__["__tracereel_boundary__"]
    path = "tracereel.demo.appointment:create_appointment"
    assert callable(entry_point(changed(tape, entry=path, kind=kind, name=name)))


@pytest.mark.parametrize(
    "entry",
    ["os; touch x:run", "a b:run", "a:run()", "a:run\n--fork", "../a:run", "a:", ":run", "-m:x"],
)
def test_an_entry_that_is_no_dotted_name_is_refused(entry: str, tape: Tape) -> None:
    with pytest.raises(TapeError, match="names no function"):
        entry_point(changed(tape, entry=entry))


def test_patterns_of_a_tape_are_not_run_and_rules_of_this_process_are(taped: Any) -> None:
    case = Redaction(rules=[Rule("case", r"case \d+")])
    _, made = taped(lambda: clerk("about case 77"), redaction=case)
    hostile = changed(made, redaction={"built_in": True, "rules": [["case", "(a|a)*["]]})

    with recording(redaction=case), tracereel.replay(hostile) as run:
        clerk("about case 78")
    assert run.report.identical
    with tracereel.replay(hostile, mode="report") as run:
        clerk("about case 78")
    assert "redaction rules that are not configured here (case)" in str(run.report)
    assert redacted(hostile).header["redaction"]["rules"] == [["case", "(a|a)*["]]


def test_a_replay_does_not_make_variables_of_the_environment_known(
    tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "the-secret-of-the-person")
    curious = changed(tape, environment={"SOME_PASSWORD": "", "TZ": "Mars"})

    with tracereel.replay(curious, mode="report") as run:
        clerk("something else")
    assert "TZ was 'Mars'" in str(run.report)
    assert "the-secret-of-the-person" not in str(run.report)


class Kept:
    """Capture the data that a replay would send to the collector."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def post_json(self, path: str, body: Any) -> None:
        self.sent.append(body)


def test_replay_reports_are_redacted_whatever_the_tape_says(tape: Tape) -> None:
    trusting = changed(tape, redaction={"built_in": False, "rules": []})
    kept: Any = Kept()
    secret = "password=hunter2-hunter2-hunter2 ana@example.com"

    with tracereel.replay(trusting, mode="report").keep_in(kept):
        clerk(secret)
    text = json.dumps(kept.sent)
    assert "changed" in text
    assert "ana@example.com" not in text


@dataclass
class Dangerous:
    """Dataclass with code behind an attribute."""

    text: str = ""

    def __del__(self) -> None:
        CALLED.append("deleted")


@dataclass
class Watched:
    """Dataclass whose attributes may be properties."""

    text: str = ""

    @property
    def other(self) -> str:
        return ""

    @other.setter
    def other(self, value: str) -> None:
        CALLED.append(f"set {value}")


class PickyError(Exception):
    """Class that runs code on instantiation and on subclassing."""

    def __new__(cls, *args: Any) -> Self:
        CALLED.append("new")
        return super().__new__(cls, *args)

    def __init_subclass__(cls) -> None:
        CALLED.append("derived")


class Colour(Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> "Colour":
        CALLED.append(f"missing {value}")
        return cls.RED


@pytest.mark.parametrize(
    "data",
    [
        {"$": "dataclass", "c": f"{HERE}:Dangerous", "v": {"text": "x"}},
        {"$": "dataclass", "c": f"{HERE}:Watched", "v": {"text": "x", "other": "y"}},
        {"$": "exception", "c": f"{HERE}:PickyError", "bases": [], "args": ["x"], "text": "x"},
        {
            "$": "exception",
            "c": "unknown:Error",
            "bases": [f"{HERE}:PickyError", "builtins:Exception"],
            "args": ["x"],
            "text": "x",
        },
        {"$": "enum", "c": f"{HERE}:Colour", "n": "BLUE", "v": "blue"},
        {"$": "enum", "c": f"{HERE}:Colour", "n": "BLUE", "v": "red"},
    ],
)
def test_rebuilding_a_value_runs_no_code_of_its_class(data: dict[str, Any]) -> None:
    CALLED.clear()
    codec.decode(data)

    assert CALLED == []


def test_values_that_would_fill_the_memory_are_refused(tape: Tape) -> None:
    with pytest.raises(UndecodableError):
        codec.decode({"$": "fraction", "v": "1e999999999"})
    blobs = {
        f"b{n}": f'[{{"$":"ref","h":"b{n + 1}"}},{{"$":"ref","h":"b{n + 1}"}}]' for n in range(60)
    }

    with pytest.raises(ValueError, match=r"longer than|too deeply"):
        payloads.read("#b0", {**blobs, "b60": '"x"'})
    with pytest.raises(ValueError, match="refers to itself"):
        payloads.read("#b0", {"b0": '[{"$":"ref","h":"b0"}]'})


@pytest.mark.parametrize(
    "record",
    [
        {"r": "open"},
        {"r": "open", "n": 2, "p": 2, "k": "tool", "name": "x", "c": "sync", "t": 0},
        {"r": "open", "n": 2, "p": 1, "k": "tool", "name": 5, "c": "sync", "t": 0},
        {"r": "open", "n": 2, "p": 1, "k": "tool", "name": "x", "c": "sync", "t": 0, "a": "=5"},
        {"r": "open", "n": 2, "p": 1, "k": "tool", "name": "x", "c": "sync", "t": 0, "a": "={"},
        {"r": "end", "n": 1, "q": "x", "t": 0},
        {"r": "run", "started": "yesterday"},
        {"r": "run", "environment": ["PATH"]},
        {"r": "blob", "h": [], "v": ""},
        {"r": 7},
        "not a record",
    ],
)
def test_a_damaged_tape_is_an_error_in_one_line(
    record: Any, tape: Tape, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.tape.ndjson"
    body = {"tape_id": "t", "part": 0, "records": [*tape.records, record]}
    file.write_text(json.dumps(body))

    assert main(["replay", str(file), "--run"]) == 1
    error = capsys.readouterr().err
    assert "is damaged" in error
    assert error.count("\n") == 1


def test_a_damaged_tape_beside_a_good_one_is_left_out(tape: Tape) -> None:
    damaged = {"tape_id": "a", "part": 0, "records": [{"r": "open"}]}
    good = {"tape_id": "b", "part": 0, "records": list(tape.records)}

    assert tape_format.parse([damaged, good]).tape_id == "b"


def test_reports_and_hints_hold_no_escape_sequence(
    taped: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = "\x1b]0;owned\x07\x9b31m\u202e\r\nresult: forged"

    @traced_tool(bad, effect="read")
    def tool(text: str) -> str:
        return text

    @traced_agent(bad)
    def agent(text: str) -> str:
        return tool(text)

    _, made = taped(lambda: agent(bad))
    hostile = changed(made, trace_id=bad, entry=f"{HERE}:clerk")
    with tracereel.replay(hostile, mode="report") as run:
        agent(bad + "!")
    lines = str(run.report).split("\n")

    assert all(line.isprintable() for line in lines), lines
    assert not any(line.startswith("result: forged") for line in lines)
    file = tmp_path / "run.tape.ndjson"
    hostile.save(file)
    main(["replay", str(file), "--run", "--fork"])
    shown = capsys.readouterr()
    assert all(line.isprintable() for line in (shown.out + shown.err).split("\n"))


def test_an_exported_test_calls_nothing_that_its_tape_should_not_name(
    tape: Tape, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    export(called_as(tape, "os:system", command=f"touch {canary}"), tmp_path / "tests")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SDK)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert not canary.exists()
    assert done.returncode == 1, done.stdout
    assert "no decorator of tracereel is on it" in done.stdout
