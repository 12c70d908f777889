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


def give_back(connection: sqlite3.Connection, *, keeps_some: bool = True) -> bool:
    """Release some free pages beyond `KEPT_PAGES`, or of all; return whether more are left.

    Of all, the last few are released at once: other jobs free new ones in between.
    """
    kept = KEPT_PAGES if keeps_some else 0
    surplus = int(connection.execute("PRAGMA freelist_count").fetchone()[0]) - kept
    step = STEP_PAGES if keeps_some or surplus > LAST_PAGES else LAST_PAGES
    for _ in range(min(surplus, step)):
        # One page per call: sqlite3 steps a statement without columns once, which frees one page.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return surplus > step
