"""Tab-separated engine output is parsed into the same rows."""

from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.store.clickhouse import rows_of

values = st.text(st.characters(exclude_characters="\t\n", codec="utf-8"), min_size=1)


@given(st.lists(st.lists(values, min_size=2, max_size=2), max_size=5))
def test_rows_come_back_whatever_characters_their_values_hold(rows):
    written = "".join("\t".join(row) + "\n" for row in rows).encode()

    assert rows_of(written) == [tuple(row) for row in rows]


def test_empty_output_has_no_lines_but_blank_lines_count():
    assert rows_of(b"") == []
    assert rows_of(b"a\n\nb\n") == [("a",), ("",), ("b",)]
