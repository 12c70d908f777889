"""Recorded text is shown safely: no escapes, no control characters, correct widths."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel.cli.terminal import Terminal, clean, display_width

HOSTILE = st.text(
    alphabet=st.one_of(
        st.sampled_from("\x1b\x9b\x9d\x90\x07\r\n\t\x00[]0;31mKJ\\\u202e\u2066\u200d\ufeff\ud800"),
        st.characters(),
    )
)


class TestClean:
    @pytest.mark.parametrize(
        ("recorded", "shown"),
        [
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b]0;new title\x07after", "after"),
            ("\x1b]52;c;ZXZpbA==\x1b\\after", "after"),
            ("\x1bP1$q\x1b\\after", "after"),
            ("\x9b2Jafter", "after"),
            ("one\r\ntwo\tthree", "one two three"),
            ("over\rwritten", "over written"),
            ("safe \u202etxt.exe", "safe txt.exe"),
            ("lone \ud800 half", "lone  half"),
            ("bell\x07 null\x00", "bell null"),
            ("mañana 李医生", "mañana 李医生"),
            (12, "12"),
        ],
    )
    def test_recorded_data_becomes_one_harmless_line(self, recorded, shown):
        assert shown == clean(recorded)

    @given(HOSTILE)
    def test_nothing_that_controls_a_terminal_survives(self, text):
        shown = clean(text)

        assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
        shown.encode("utf-8")


class TestWidth:
    def test_wide_characters_take_two_columns_and_marks_none(self):
        assert display_width("李医生") == 6
        assert display_width("e\u0301") == 1

    @given(HOSTILE, st.integers(0, 60), st.booleans())
    def test_fitted_text_is_never_wider_than_requested(self, text, width, unicode):
        assert display_width(Terminal(unicode=unicode).fit(clean(text), width)) <= width

    def test_a_text_that_fits_is_left_alone(self):
        assert Terminal().fit("李医生", 6) == "李医生"

    def test_truncated_text_is_marked(self):
        assert Terminal().fit("李医生", 4) == "李…"


class _Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class TestColour:
    def test_a_terminal_has_colour(self, monkeypatch):
        monkeypatch.delenv("NO_COLOR", raising=False)

        assert Terminal.of(_Screen()).paint("x", "red") == "\x1b[31mx\x1b[0m"

    def test_no_color_turns_it_off(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")

        assert Terminal.of(_Screen()).paint("x", "red") == "x"

    def test_file_output_has_no_colour(self, monkeypatch):
        monkeypatch.delenv("NO_COLOR", raising=False)

        assert Terminal.of(io.StringIO()).paint("x", "red") == "x"
