"""What a backup says of itself, and whether its files are still what they were."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tracereel_collector.errors import StartupError

FORMAT = 1
NAME = "manifest.json"
QUEUE, STORE, KEYS, AUDIT = "queue.sqlite", "store.tar", "keys.sqlite", "audit"
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One backup."""

    tracereel: str
    """The version that made it."""
    made: str
    migrations: list[int]
    tables: dict[str, int]
    """Rows of each."""
    counters: dict[str, int]
    """The queue's conservation counters, by `name/kind`."""
    waiting_bodies: int
    """In the queue and not in the store: they are delivered after a restore."""
    files: dict[str, tuple[int, str]]
    """Bytes and SHA-256 of each, by path."""
    database: str
    server_place: str | None = None
    """Where a server has put its part, in ClickHouse's words; None where `store.tar` is it."""
    format: int = FORMAT

    def write(self, directory: Path) -> None:
        """Say that the backup is complete."""
        text = json.dumps(asdict(self), indent=2) + "\n"
        (directory / NAME).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """What a directory holds.

        Raises:
            StartupError: it is no backup, not a complete one, or one that this version cannot read.
        """
        try:
            values = json.loads((directory / NAME).read_bytes())
        except FileNotFoundError:
            raise StartupError(f"{directory} is not a complete backup: it has no {NAME}") from None
        except (OSError, ValueError) as error:
            raise StartupError(f"{directory / NAME} cannot be read: {error}") from error
        if values.get("format") != FORMAT:
            raise StartupError(
                f"the backup has format {values.get('format')}, this version reads {FORMAT}",
                hint=f"restore it with tracereel {values.get('tracereel')}",
            )
        return cls(**{**values, "files": {k: (v[0], v[1]) for k, v in values["files"].items()}})

    def check(self, directory: Path) -> None:
        """Hold the files against what was written down of them.

        Raises:
            StartupError: one is missing or another.
        """
        for name, known in self.files.items():
            try:
                found = fingerprint(directory / name)
            except OSError as error:
                raise StartupError(f"the backup's {name} cannot be read: {error}") from error
            if found != known:
                raise StartupError(
                    f"the backup's {name} is not what was saved:"
                    f" {found[0]} bytes, {found[1][:12]}…, saved were {known[0]}, {known[1][:12]}…"
                )


def fingerprint(file: Path) -> tuple[int, str]:
    """Size and SHA-256."""
    digest = hashlib.sha256()
    size = 0
    with file.open("rb") as reading:
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()
