"""File permissions: files that a collector writes are private to its user."""

import os
import stat
from pathlib import Path
from typing import Final

PRIVATE_UMASK: Final = 0o077


def make_files_private() -> None:
    """Set the umask of this process, and of children it starts, to owner only."""
    os.umask(PRIVATE_UMASK)


def mode_open_to_others(path: Path) -> str | None:
    """Return the octal mode if group or others may access a path, else None."""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{mode:04o}" if mode & PRIVATE_UMASK else None
