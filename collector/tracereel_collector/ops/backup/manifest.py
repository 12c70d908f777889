"""Manifest of a backup, and verification of its files."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tracereel_collector.errors import StartupError

FORMAT = 1
NAME = "manifest.json"
QUEUE, STORE, KEYS = "queue.sqlite", "store.tar", "keys.sqlite"
AUDIT, CLOCK = "audit", "clock.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Description of one backup."""

    tracereel: str
    """Version that made the backup."""
    made: str
    migrations: list[int]
    tables: dict[str, int]
    """Row counts by table."""
    counters: dict[str, int]
    """Conservation counters of the queue, by `name/kind`."""
    waiting_bodies: int
    """Bodies in the queue but not in the store; delivered after a restore."""
    files: dict[str, tuple[int, str]]
    """Size in bytes and SHA-256 by path."""
    database: str
    server_place: str | None = None
    """Location of a server's backup, as a ClickHouse expression; `None` if it is in `store.tar`."""
    shards: int = 0
    """Shards of the cluster that it is of; 0 for one server."""
    format: int = FORMAT

    def write(self, directory: Path) -> None:
        """Write the manifest, which marks the backup as complete."""
        text = json.dumps(asdict(self), indent=2) + "\n"
        (directory / NAME).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """Read a manifest; raise StartupError without a complete backup of a known format."""
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
        """Raise StartupError if a file is missing or differs from its recorded checksum."""
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
    """Return size and SHA-256 of a file."""
    with file.open("rb") as reading:
        digest = hashlib.file_digest(reading, "sha256").hexdigest()
        return reading.tell(), digest
