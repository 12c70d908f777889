"""Destination records: the endpoint, key fingerprint and tenant of each spool directory.

The record is `<spool_dir>/<destination>.json`, beside the directory. It holds a fingerprint of the
key, not the key. It keeps the spool of a revoked key from being delivered to another tenant.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from tracereel._export.memory_segments import MAX_BYTES as MAX_MEMORY_BYTES
from tracereel._export.spool import LOCK_SUFFIX, Spool, check_owner
from tracereel.config import Config

RECORD_SUFFIX: Final = ".json"
MAX_RECORD_BYTES: Final = 16 * 1024
MAX_DIRECTORIES: Final = 1_000
"""Maximum number of spool directories that are scanned; each endpoint and key has one."""
NO_KEY: Final = "none"
_FINGERPRINT_CHARS: Final = 16


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoint, key fingerprint and tenant of a spool directory."""

    endpoint: str
    key: str
    """Fingerprint of the API key."""
    tenant: str | None = None
    """Tenant of the key, if the collector has reported it."""


def fingerprint(api_key: str | None) -> str:
    """Return a short digest that identifies a key without revealing it."""
    if api_key is None:
        return NO_KEY
    return hashlib.sha256(api_key.encode()).hexdigest()[:_FINGERPRINT_CHARS]


def read(directory: Path) -> Destination | None:
    """Return the record of a spool directory, or None if missing, damaged or another user's.

    The owner check matters because the record decides where events are sent.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(record_path(directory), flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                return None
            return msgspec.json.decode(file.read(MAX_RECORD_BYTES), type=Destination)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        return None


def remember(config: Config, tenant: str | None = None) -> None:
    """Write the record of this configuration, best effort; keep a recorded tenant."""
    known = read(config.destination_dir)
    tenant = tenant or (known.tenant if known is not None else None)
    record = Destination(endpoint=config.endpoint, key=fingerprint(config.api_key), tenant=tenant)
    if record == known:
        return
    path = record_path(config.destination_dir)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # not a file of another user
        descriptor = os.open(temporary, flags, 0o600)
        try:
            os.write(descriptor, msgspec.json.encode(record))
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()


def spool_of(config: Config, *, on_late_drop: Callable[[str], None]) -> Spool:
    """Create the spool of a configuration; opening it writes the destination record."""
    return Spool(
        config.destination_dir,
        max_bytes=config.max_spool_bytes,
        memory_bytes=MAX_MEMORY_BYTES,
        on_late_drop=on_late_drop,
        on_open=lambda: remember(config),
    )


def others(config: Config) -> Iterator[tuple[Path, Destination | None]]:
    """Yield the other spool directories of this user that hold emitters, with their records."""
    try:
        with os.scandir(config.spool_dir) as entries:
            names = sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in names[:MAX_DIRECTORIES]:
        directory = config.spool_dir / name
        if directory == config.destination_dir:
            continue
        try:
            check_owner(directory)
            occupied = any(path.suffix == LOCK_SUFFIX for path in directory.iterdir())
        except OSError:
            continue
        if occupied:
            yield directory, read(directory)


def record_path(directory: Path) -> Path:
    """Return the path of a spool directory's record."""
    return directory.with_name(directory.name + RECORD_SUFFIX)
