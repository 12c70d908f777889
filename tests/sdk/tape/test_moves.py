"""Names of a tape that a refactor has changed: `tracereel-moves.toml`."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tests.sdk.tape.programs import shop_after, shop_before
from tests.sdk.tape.programs.shop_before import Order, Size
from tests.support.replay_trial import recording
from tracereel.tape import DivergenceError, Tape, TapeError
from tracereel.tape import format as tape_format

BEFORE, AFTER = shop_before.__name__, shop_after.__name__
MOVES = f"""
[entries]
"{BEFORE}:handle" = "{AFTER}:serve"

[tools]
find = "search"
price = "amount"
"{BEFORE}:price" = "{AFTER}:amount"
"{BEFORE}:find" = "{AFTER}:search"

[classes]
"{BEFORE}:Order" = "{AFTER}:Purchase"
"{BEFORE}:Price" = "{AFTER}:Amount"
"{BEFORE}:Size" = "{AFTER}:Extent"
"{BEFORE}:SoldOutError" = "{AFTER}:GoneError"

[agents]
clerk = "assistant"
shop = "store"
"look up" = "look"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(note: str = "soon") -> list[dict[str, Any]]:
    lines = (Order.Line("mug", Size.SMALL), Order.Line("tent", Size.LARGE))
    with recording() as events:
        shop_before.handle(Order(lines, note))
    return events


def replayed(tape: Tape) -> Any:
    shop_before.ran.clear()
    shop_after.ran.clear()
    with tracereel.replay(tape, mode="report") as run:
        run.call()
    assert shop_before.ran == shop_after.ran == []
    return run.report


@pytest.mark.parametrize("note", ["soon", "a long note " * 400], ids=["short", "stored in parts"])
def test_a_program_whose_names_have_all_changed_replays_as_the_same(
    folder: Path, note: str
) -> None:
    events = recorded(note)
    (folder / "tracereel-moves.toml").write_text(MOVES)
    tape = tape_format.parse(events)

    assert [call.name for call in tape.boundaries()] == ["search", "search", "amount"]
    report = replayed(tape)
    assert report.verdict == "same", str(report)
    assert report.not_compared == []


@pytest.mark.parametrize("line", ["find =", "price =", ":handle", "clerk =", "shop ="])
def test_a_name_that_is_not_in_the_file_is_a_difference(folder: Path, line: str) -> None:
    events = recorded()
    kept = [each for each in MOVES.splitlines() if line not in each]
    (folder / "tracereel-moves.toml").write_text("\n".join(kept))
    tape = tape_format.parse(events)

    with suppress(DivergenceError, TapeError):
        assert replayed(tape).verdict == "changed"
    if line == ":handle":
        assert tape.header["entry"] == f"{BEFORE}:handle"


def test_another_value_is_a_change_under_the_new_names_too(folder: Path) -> None:
    events = recorded()
    (folder / "tracereel-moves.toml").write_text(MOVES)
    tape = tape_format.parse(events)

    with tracereel.replay(tape, mode="report") as run:
        shop_after.serve(
            shop_after.Purchase((shop_after.Purchase.Line("mug", shop_after.Extent.LARGE),), "soon")
        )
    assert run.report.verdict == "changed"
    assert [str(each) for each in run.report.divergences[0].differences] == [
        "line.size: Extent.SMALL → Extent.LARGE"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[entry]\na = 'b'", "expected the tables entries, tools, classes, agents"),
        ("tools = 3", "expected the tables"),
        ("[tools]\na = 3", "expected the new name"),
        ("[classes]\nOrder = 'Purchase'", "expected module:name"),
        ("[tools]\n'shop:look' = 'find'", "expected module:name"),
        ("[tools", "cannot be read"),
        ("# " + "x" * 300_000, "at most 262144 are read"),
    ],
)
def test_an_invalid_file_of_moves_is_refused_with_the_reason(
    folder: Path, text: str, problem: str
) -> None:
    (folder / "tracereel-moves.toml").write_text(text)

    with pytest.raises(TapeError, match=problem):
        tape_format.parse(recorded())
