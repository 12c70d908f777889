"""Entry points of a replay: scripts, classes, objects, abandoned streams; and errors."""

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tests.sdk.conftest import SDK
from tracereel import traced_agent, traced_tool
from tracereel.cli import main
from tracereel.tape import DivergenceError, Tape, TapeError, load
from tracereel.tape import format as tape_format
from tracereel.tape.entry import entry_point

SCRIPT = """
import sys
from dataclasses import dataclass
from pathlib import Path

import tracereel


@dataclass
class Order:
    number: int


class SoldOutError(Exception):
    pass


@tracereel.traced_tool("find", effect="read")
def find(number):
    if "recording" not in sys.argv:
        raise AssertionError("a replay makes no call")
    return Order(number)


@tracereel.traced_tool("pay", effect="irreversible")
def pay(order):
    if "recording" not in sys.argv:
        raise AssertionError("a replay makes no call")
    raise SoldOutError(order.number)


@tracereel.traced_agent("shop")
def shop(number):
    try:
        return pay(find(number))
    except SoldOutError as error:
        return f"{error} is sold out"


if __name__ == "__main__":
    from tests.support.replay_trial import recording
    from tracereel.tape import format as tape_format

    with recording() as events:
        print(shop(7))
    tape_format.parse(events).save(sys.argv[1])
    with tracereel.replay(sys.argv[1]) as run:
        print(run.call())
    print(run.report)
"""


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TRACEREEL")}
    root = str(Path(__file__).parents[3])
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**clean, "PYTHONPATH": os.pathsep.join([str(SDK), root])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("script", ["till.py", "scripts/till.py"])
def test_a_run_of_a_script_is_replayed_by_the_command(script: str, tmp_path: Path) -> None:
    """`__main__` has another name in other processes; so do its classes."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / script).write_text(SCRIPT)

    made = run(tmp_path, script, "run.tape.ndjson", "recording")
    assert made.returncode == 0, made.stderr
    assert "7 is sold out\n7 is sold out\nThe run of" in made.stdout  # also in the script itself
    assert load(tmp_path / "run.tape.ndjson").header["entry"] == "till:shop"
    again = run(tmp_path, "-m", "tracereel", "replay", "run.tape.ndjson", "--run")

    message = f"tracereel replay: importing till from {tmp_path / script}, which the tape names\n"
    assert (again.returncode, again.stderr) == (0, message)
    assert again.stdout.startswith("result: '7 is sold out'\n")
    assert "went as recorded: 2 calls served, 0 made" in again.stdout


@traced_tool("stamp", effect="read")
def stamp(text: str) -> str:
    return f"{text} {os.urandom(4).hex()}"


class Desk:
    """Class that starts runs in every way."""

    def __init__(self, name: str) -> None:
        self.name = name

    @traced_agent("desk")
    def serve(self, text: str) -> str:
        return stamp(f"{self.name} {text}")

    @classmethod
    @traced_agent("desk")
    def opened(cls, text: str) -> str:
        return stamp(f"{cls.__name__} {text}")

    @staticmethod
    @traced_agent("desk")
    def bare(text: str) -> str:
        return stamp(text)


DESK = Desk("front")
HERE = __name__


@pytest.mark.parametrize("method", ["opened", "bare"])
def test_methods_without_an_object_are_entry_points(method: str, taped: Any) -> None:
    result, tape = taped(lambda: getattr(Desk, method)("hello"))

    with tracereel.replay(tape) as again:
        assert again.call() == result
    assert again.report.served == 1
    assert entry_point(tape) == getattr(Desk, method)


def test_a_method_is_called_on_the_object_that_is_named(
    taped: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, tape = taped(lambda: DESK.serve("hello"))
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)

    assert main(["replay", str(path), "--run"]) == 1
    assert "name the object (--run module:object.method" in capsys.readouterr().err
    assert main(["replay", str(path), "--run", f"{HERE}:DESK.serve"]) == 0
    assert repr(result) in capsys.readouterr().out


@traced_agent("teller")
def teller() -> Any:
    for number in range(5):
        yield stamp(str(number))


def first_two() -> list[str]:
    stream = teller()
    found = [next(stream), next(stream)]
    stream.close()
    return found


def test_a_stream_that_was_left_is_left_at_the_same_place(taped: Any) -> None:
    found, tape = taped(first_two)

    with tracereel.replay(tape) as again:
        assert again.call() == found
    assert again.report.identical
    with pytest.raises(DivergenceError), tracereel.replay(tape) as again:
        next(teller())
    with tracereel.replay(tape, mode="report") as again:
        stream = teller()
        next(stream)
        stream.close()
    assert [each.kind for each in again.report.divergences] == ["missing", "output"]


@traced_agent("ticker")
async def ticker() -> Any:
    for number in range(5):
        yield stamp(str(number))


def test_an_async_stream_that_was_left_is_left_at_the_same_place(taped: Any) -> None:
    import asyncio

    async def one() -> list[str]:
        stream = ticker()
        found = [await anext(stream)]
        await stream.aclose()
        return found

    found, tape = taped(lambda: asyncio.run(one()))

    with tracereel.replay(tape) as again:
        assert again.call() == found
    assert (again.report.identical, again.report.served) == (True, 1)


def with_entry(tape: Tape, **changes: Any) -> Tape:
    records = [{**each, **changes} if each["r"] == "run" else each for each in tape.records]
    return tape_format.parse([{"tape_id": tape.tape_id, "part": 0, "records": records}])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("nobody:knows", "there is no module 'nobody' here"),
        (f"{HERE}:nothing", "is not there"),
        (f"{HERE}:outer.<locals>.inner", "was made inside a function"),
        (f"{HERE}:HERE", "is not a function but"),
        ("broken_program:main", "its module raises ZeroDivisionError"),
        ("needy_program:main", "it needs 'a_module_that_nobody_has', which is not installed here"),
        ("__main__:typed", "was typed in, or given with -c"),
        (None, "did not begin with a function but with a block"),
    ],
)
def test_uncallable_entry_error_has_reason_and_advice(
    entry: str | None, message: str, taped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a command would start it: `__main__` here is not that of the run.
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("a_command", None))
    (tmp_path / "broken_program.py").write_text("1 / 0")
    (tmp_path / "needy_program.py").write_text("import a_module_that_nobody_has")
    monkeypatch.chdir(tmp_path)
    _, tape = taped(lambda: DESK.serve("hello"))

    with pytest.raises(TapeError) as refused:
        entry_point(with_entry(tape, entry=entry))

    assert message in str(refused.value)


def test_a_run_that_could_not_be_called_has_not_gone_as_recorded(taped: Any) -> None:
    _, tape = taped(lambda: DESK.serve("hello"))
    with pytest.raises(TapeError, match="is a method"), tracereel.replay(tape) as again:
        again.call()

    assert not again.report.identical
    assert "was stopped: 0 calls served" in str(again.report)
