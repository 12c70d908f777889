"""Fsync of files and directories."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Flush a file's data, or a directory's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """Flush everything in a directory to disk, then the directory itself."""
    for path in directory.rglob("*"):
        if path.is_file() or path.is_dir():  # skip pipes, sockets and dangling links
            sync(path)
    sync(directory)
