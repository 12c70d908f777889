"""chDB's parser, which is only available from a private name."""

from typing import Any


def count_statements(handle: Any, sql: str) -> int:
    """Return the number of statements in a text; 1 if this version of chDB cannot tell."""
    classify = getattr(handle._conn, "classify_query", None)  # noqa: SLF001 - there is no public API
    return 1 if classify is None else int(classify(sql)["statement_count"])
