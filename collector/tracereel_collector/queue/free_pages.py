"""Release free pages of the queue file in small steps, so that the file shrinks.

Deleted bodies leave free pages that still hold their text. SQLite either reuses such a page or moves
a used page from the end of the file onto it and truncates the file.
"""

import sqlite3
from typing import Final

STEP_PAGES: Final = 64
"""Pages released per transaction: a commit that shares it waits for at most 1 MiB."""
KEPT_PAGES: Final = 4096
"""Free pages kept for the next bodies (64 MiB), to avoid repeated resizing."""
LAST_PAGES: Final = 1024
"""Free pages that may be released in one last transaction."""


def give_back(connection: sqlite3.Connection) -> bool:
    """Release some free pages beyond `KEPT_PAGES`; return whether more are left."""
    surplus = _free(connection) - KEPT_PAGES
    _shorten(connection, min(surplus, STEP_PAGES))
    return surplus > STEP_PAGES


def give_back_last(connection: sqlite3.Connection) -> bool:
    """Release some free pages, or all if they are few; return whether any are left."""
    free = _free(connection)
    _shorten(connection, free if free <= LAST_PAGES else STEP_PAGES)
    return free > LAST_PAGES


def _shorten(connection: sqlite3.Connection, pages: int) -> None:
    for _ in range(pages):
        # One page per call: sqlite3 steps a statement without columns once, which frees one page.
        connection.execute("PRAGMA incremental_vacuum(1)")


def _free(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
