"""Tables, trees and progress stay within the width, whatever they contain."""

import io
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import wait_until
from tracereel.cli.progress import Progress, progress
from tracereel.cli.tables import Cell, TableColumn, table
from tracereel.cli.terminal import Terminal, display_width
from tracereel.cli.trace import branches, render
from tracereel.client import Trace

COLUMNS = (
    TableColumn("when", needed=5, least=8),
    TableColumn("count", right=True, needed=3),
    TableColumn("text", needed=1, least=10),
    TableColumn("id", needed=9, least=12),
)


class FakeTerminal(io.StringIO):
    """Return the text written to a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


def test_columns_line_up_and_numbers_stand_right():
    rows = [["today", "7", "a", "id-1"], ["yesterday", "1,234", "bbb", "id-2"]]

    assert list(table(COLUMNS, rows, Terminal(width=80))) == [
        "when       count  text  id",
        "today          7  a     id-1",
        "yesterday  1,234  bbb   id-2",
    ]


def test_narrow_table_drops_optional_columns_and_keeps_the_id():
    rows = [["2026-11-16", "1234567", "a very long text indeed", "id-123456789"]]

    narrow = list(table(COLUMNS, rows, Terminal(width=40)))

    assert narrow[0].split() == ["when", "count", "id"]
    assert narrow[1].endswith("id-123456789")


def test_a_column_without_anything_is_left_out():
    assert next(table(COLUMNS, [["x", "", "", "id"]], Terminal(width=80))) == "when  id"


def test_colour_does_not_change_the_width():
    rows = [[Cell("x", ("red",)), "1", "y", "id"]]

    plain, painted = (
        list(table(COLUMNS, rows, Terminal(width=80, colour=colour))) for colour in (False, True)
    )

    assert "\x1b[31mx\x1b[0m" in painted[1]
    assert painted[1].replace("\x1b[31m", "").replace("\x1b[0m", "") == plain[1]


@given(
    st.lists(st.lists(st.text(max_size=60), min_size=4, max_size=4), max_size=5),
    st.integers(40, 160),
    st.booleans(),
)
def test_no_line_is_wider_than_the_terminal_or_controls_it(rows, width, unicode):
    for line in table(COLUMNS, rows, Terminal(width=width, unicode=unicode)):
        assert display_width(line) <= width
        assert not {unicodedata.category(c) for c in line} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
        assert unicode or line.isascii()


def test_branches_show_who_belongs_to_whom():
    assert branches([0, 1, 2, 2, 1, 2, 0], Terminal()) == [
        "",
        "├─ ",
        "│  ├─ ",
        "│  └─ ",
        "└─ ",
        "   └─ ",
        "",
    ]
    assert branches([0, 1, 1], Terminal(unicode=False)) == ["", "|- ", "`- "]


STEPS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.text(max_size=5),
            "kind": st.sampled_from(["pipeline", "agent", "llm", "other"]),
            "name": st.text(max_size=80),
            "status": st.sampled_from(["success", "failed", "running", "?"]),
            "depth": st.integers(-1, 40),
            "reasoning": st.text(max_size=80),
            "duration_ms": st.none() | st.floats(0, 1e9),
            "error": st.none() | st.dictionaries(st.sampled_from(["type", "message"]), st.text()),
        }
    ),
    max_size=8,
)


@given(STEPS, st.integers(40, 160), st.booleans())
def test_a_tree_fits_whatever_was_recorded(steps, width, unicode):
    trace = Trace.model_validate(
        {"trace_id": "t\x1b[2J", "steps": steps, "summary": {"fatal_error": {"message": "\x07"}}}
    )

    for line in render(trace, Terminal(width=width, unicode=unicode)):
        assert display_width(line) <= width
        assert not {unicodedata.category(c) for c in line} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_a_tree_shows_the_last_decision_of_a_step_without_its_own():
    decisions = [
        {"type": "entity_extraction", "reasoning": "a date is named"},
        {"type": "routing", "chosen": "billing", "reasoning": "an invoice is named"},
    ]
    step = {"id": "a", "kind": "agent", "name": "router", "status": "success"}
    trace = Trace.model_validate({"trace_id": "t", "steps": [{**step, "decisions": decisions}]})

    *_, line = render(trace, Terminal(width=100))

    assert line.endswith("router decided routing: billing · an invoice is named")


def test_progress_is_drawn_on_a_terminal_and_taken_away():
    stream = FakeTerminal()
    with progress("reading", stream) as shown:
        shown.update(5, 10)
        wait_until(lambda: "50%" in stream.getvalue())

    assert stream.getvalue().endswith("\r\x1b[K")
    assert "5 of 10" in stream.getvalue()


def test_progress_is_not_written_to_a_pipe():
    stream = io.StringIO()
    shown = Progress("reading", stream)
    shown.update(1, 2)
    shown.stop()

    assert stream.getvalue() == ""
