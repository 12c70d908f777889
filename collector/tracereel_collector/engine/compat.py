"""Private names of chDB that have no public counterpart."""

from typing import Any


def count_statements(handle: Any, sql: str) -> int:
    """Return the number of statements in a text by chDB's parser; 1 if it cannot be reached."""
    classify = getattr(handle._conn, "classify_query", None)  # noqa: SLF001 - no public API
    return 1 if classify is None else int(classify(sql)["statement_count"])
