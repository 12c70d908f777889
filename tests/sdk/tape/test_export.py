"""A run exported as a test: passes offline, fails on divergence, contains no secret."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.conftest import SDK
from tests.support.replay_trial import recording
from tests.support.secret_samples import CORPUS, leaks
from tracereel import traced_agent, traced_tool
from tracereel.cli import main
from tracereel.tape import TapeError, load
from tracereel.tape import format as tape_format
from tracereel.tape.export import export, redacted

PROGRAM = """
import random
import socket

from tracereel import traced_agent, traced_llm, traced_tool


@traced_tool("weather", effect="read")
def weather(city):
    socket.create_connection(("192.0.2.1", 9), timeout=0.01)


@traced_llm("model")
async def ask(prompt):
    raise AssertionError("a replay makes no call")


@traced_agent("traveller")
async def traveller(city, *places, mood="good"):
    found = weather(city)
    return {"answer": await ask(f"{city} {found} {places} {mood}")}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a program in its own directory, and the tape of a run."""
    import importlib

    (tmp_path / "travel.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("travel", None)
    module = importlib.import_module("travel")
    module.weather.__wrapped__.__code__ = (lambda city: {"city": city, "degrees": 21}).__code__

    async def answer(prompt: str) -> str:
        return f"go: {prompt}"

    module.ask.__wrapped__.__code__ = answer.__code__
    with recording() as events:
        asyncio.run(module.traveller("Madrid", "Prado", mood="curious"))
    sys.modules.pop("travel", None)
    return tmp_path, tape_format.parse(events)


def run_pytest(folder: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TRACEREEL")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "tests"],
        cwd=folder,
        env={**clean, "PYTHONPATH": f"{SDK}{os.pathsep}{folder}", **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("ci", ["", "true"], ids=["at a desk", "in CI"])
def test_an_exported_test_passes_offline_and_fails_with_the_divergence(
    program: Any, ci: str
) -> None:
    folder, tape = program
    files = export(tape, folder / "tests")

    first = run_pytest(folder, CI=ci)
    assert first.returncode == 0, first.stdout + first.stderr
    source = (folder / "travel.py").read_text().replace('f"{city} {found}', 'f"{city}: {found}')
    (folder / "travel.py").write_text(source)
    second = run_pytest(folder, CI=ci)

    assert second.returncode == 1
    assert second.stdout.count("the arguments are not those on the tape") == 1
    assert "travel.py" in second.stdout
    assert "assert [call.name for call in" in files.test.read_text()
    assert '["weather", "model"]' in files.test.read_text()


NO_NETWORK = """
import sys


def refuse(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise AssertionError(f"the network was used: {event} {args}")


sys.addaudithook(refuse)
"""


def test_an_exported_test_passes_on_a_fresh_clone_without_a_network(
    program: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, tape = program
    export(tape, folder / "tests" / "replays")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "travel.py", "tests"], ["commit", "-qm", "a run"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    clone = tmp_path_factory.mktemp("elsewhere") / "clone"
    subprocess.run([*git, "clone", "-q", folder, clone], check=True)
    (clone / "sitecustomize.py").write_text(NO_NETWORK)

    done = run_pytest(clone)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_tracereel_update_rerecords_a_tape_but_not_in_ci(program: Any) -> None:
    folder, tape = program
    files = export(tape, folder / "tests")
    source = (folder / "travel.py").read_text()
    source = source.replace(
        'raise AssertionError("a replay makes no call")', 'return "new " + prompt'
    )
    source = source.replace('socket.create_connection(("192.0.2.1", 9), timeout=0.01)', "return 7")
    (folder / "travel.py").write_text(source)

    refused = run_pytest(folder, "--tracereel-update", CI="1")
    assert refused.returncode != 0
    assert "does not run in CI" in refused.stdout + refused.stderr
    updated = run_pytest(folder, "--tracereel-update", CI="")
    assert updated.returncode == 0, updated.stdout + updated.stderr
    new = load(files.tape)
    assert new.data(new.closed["v"]) == {"answer": "new Madrid 7 ('Prado',) curious"}
    assert run_pytest(folder).returncode == 0


CLERK = """
import tracereel
from tracereel import traced_agent, traced_tool

tracereel.configure(record="all", endpoint="http://127.0.0.1:9", spool_dir=SPOOL)


@traced_tool("order", effect="read")
def order(number):
    return {"number": number}


@traced_tool("refund", effect="irreversible")
def refund(number):
    with open("refunds", "a") as file:
        file.write("again ")
    return f"refunded {number}"


@traced_agent("clerk")
def clerk(number):
    found = order(number)
    return refund(found["number"])
"""


@pytest.fixture
def clerk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a program that configures the SDK at import, and the test of a run."""
    import importlib

    monkeypatch.chdir(tmp_path)
    (tmp_path / "clerk.py").write_text(CLERK.replace("SPOOL", repr(str(tmp_path / "spool"))))
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("clerk", None)
    with recording():
        module = importlib.import_module("clerk")
    with recording() as events:
        module.clerk(7)
    sys.modules.pop("clerk", None)
    (tmp_path / "refunds").unlink()
    return tmp_path, export(tape_format.parse(events), tmp_path / "tests")


def test_rerecording_a_self_configured_program_updates_expected_calls(
    clerk: Any,
) -> None:
    folder, files = clerk
    source = (folder / "clerk.py").read_text()
    source = source.replace("    return refund(found", "    order(8)\n    return refund(found")
    (folder / "clerk.py").write_text(source)
    test = files.test.read_text()
    files.test.write_text(test.replace('ndjson")', 'ndjson", allow=["refund"])'))

    assert run_pytest(folder).returncode == 1
    updated = run_pytest(folder, "--tracereel-update", CI="")
    assert updated.returncode == 0, updated.stdout + updated.stderr
    assert '["order", "order", "refund"]' in files.test.read_text()
    again = run_pytest(folder)

    assert again.returncode == 0, again.stdout + again.stderr
    assert (folder / "refunds").read_text() == "again "


def test_rerecording_refuses_side_effects_that_are_not_allowed_by_name(
    clerk: Any,
) -> None:
    folder, files = clerk
    before = files.tape.read_bytes()

    refused = run_pytest(folder, "--tracereel-update", CI="")

    assert refused.returncode == 1
    assert "refund would run for real (it declares irreversible)" in refused.stdout
    assert "allow=['refund'])" in refused.stdout
    assert not (folder / "refunds").exists()
    assert files.tape.read_bytes() == before


def test_a_run_that_failed_is_a_test_that_passes_as_long_as_it_fails_so(program: Any) -> None:
    import importlib

    folder, _ = program
    source = (folder / "travel.py").read_text()
    source = source.replace('socket.create_connection(("192.0.2.1", 9), timeout=0.01)', "return 7")
    (folder / "travel.py").write_text(source)
    with recording() as events, pytest.raises(AssertionError):
        asyncio.run(importlib.import_module("travel").traveller("Madrid"))
    sys.modules.pop("travel", None)
    files = export(tape_format.parse(events), folder / "tests")

    passed = run_pytest(folder)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert 'raised AssertionError("a replay makes no call")' in files.test.read_text()
    source = source.replace("found = weather(city)", "raise KeyError(city)")
    (folder / "travel.py").write_text(source)
    failed = run_pytest(folder)

    assert failed.returncode == 1
    assert "this call is on the tape and was not made" in failed.stdout
    (folder / "travel.py").unlink()
    gone = run_pytest(folder)
    assert gone.returncode == 1
    assert "there is no module 'travel' here" in gone.stdout


def test_truncated_tape_cannot_be_exported(program: Any, tmp_path: Path) -> None:
    _, tape = program
    cut = [record for record in tape.records if record["r"] != "closed"]
    parts = [{"tape_id": tape.tape_id, "part": 0, "records": cut}]

    with pytest.raises(TapeError, match="cannot be made a test: the tape ends before the run did"):
        export(tape_format.parse(parts), tmp_path)


def test_an_export_holds_no_secret_whatever_the_recording_held(tmp_path: Path) -> None:
    @traced_tool("echo", effect="read")
    def echo(text: str, password: str) -> Any:
        return {"said": text, "token": password}

    @traced_agent("a")
    def agent() -> int:
        return len([echo(sample, sample) for _, sample in CORPUS])

    with recording(redaction=False) as events:
        agent()
    tape = tape_format.parse(events)
    assert len(leaks("\n".join(line.decode() for line in tape.lines()))) >= 200
    files = export(tape, tmp_path)

    assert leaks(files.tape.read_text() + files.test.read_text()) == []
    assert load(files.tape).state == "partly"
    assert redacted(load(files.tape)).state == "partly"


def test_unreplayable_run_cannot_be_exported(tmp_path: Path) -> None:
    with recording(capture_content=False) as events, traced_agent("block"):
        traced_tool("t")(lambda: 1)()

    with pytest.raises(TapeError, match="cannot be made a test"):
        export(tape_format.parse(events), tmp_path)


def test_the_commands_export_and_re_execute(
    program: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, tape = program
    path = folder / "run.tape.ndjson"
    tape.save(path)
    monkeypatch.chdir(folder)

    assert main(["replay", str(path), "--run"]) == 0
    assert "went as recorded: 2 calls served, 0 made" in capsys.readouterr().out
    assert main(["replay", str(path), "--run", "travel:traveller", "--mode", "report"]) == 0
    capsys.readouterr()
    assert main(["replay", str(path), "--run", "travel:nothing"]) == 1
    assert "is not there" in capsys.readouterr().err
    named = ["--allow-network", "192.0.2.1"]
    assert main(["replay", str(path), "--run", "--fork-at", "1", *named]) == 0
    assert "recorded as" in capsys.readouterr().out
    changed = ["--result", "model=stay", "--result", '1={"degrees": 3}']
    assert main(["replay", str(path), "--run", "--fork-at", "3", *changed]) == 0
    assert "result: {'answer': 'stay'}" in capsys.readouterr().out
    assert main(["replay", str(path), "--run", "--result", "model"]) == 1
    assert "expected TARGET=JSON" in capsys.readouterr().err
    assert (
        main(["test-from", str(path), "--directory", str(folder / "tests"), "--name", "trip"]) == 0
    )
    assert (folder / "tests" / "test_trip.py").exists()
    assert main(["test-from", str(path), "--tape", str(folder / "copy.tape.ndjson")]) == 0
    assert load(folder / "copy.tape.ndjson").trace_id == tape.trace_id


METHOD = """
from tracereel import traced_agent, traced_tool


@traced_tool("count", effect="read")
def count(text):
    return len(text)


class Clerk:
    def __init__(self, name):
        self.name = name

    @traced_agent("clerk")
    def serve(self, text):
        return f"{self.name} counts {count(text)}"

    @classmethod
    @traced_agent("chief")
    def lead(cls, text):
        return count(text)
"""


def test_exported_test_of_a_method_names_the_object_to_create(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib

    (tmp_path / "clerks.py").write_text(METHOD)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("clerks")
    tapes = []
    for begin in (module.Clerk("Ann").serve, module.Clerk.lead):
        with recording() as events:
            begin("hello")
        tapes.append(tape_format.parse(events))
    sys.modules.pop("clerks", None)
    file = tmp_path / "run.tape.ndjson"
    tapes[0].save(file)
    assert (
        main(["test-from", str(file), "--directory", str(tmp_path / "tests"), "--name", "it"]) == 0
    )
    assert (
        "the run began with Clerk.serve, whose object is not on the tape" in capsys.readouterr().out
    )
    export(tapes[1], tmp_path / "tests", name="lead")

    done = run_pytest(tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert done.stdout.count("Clerk.serve is a method, and its object is not on the tape") == 1

    test = tmp_path / "tests" / "test_it.py"
    source = test.read_text()
    assert "tape_run.call(made.serve)" in source
    made = "    import clerks\n\n    tape_run.call(clerks.Clerk('Ann').serve)\n"
    test.write_text(source.replace("    tape_run.call()\n", made))
    assert "2 passed" in run_pytest(tmp_path).stdout
