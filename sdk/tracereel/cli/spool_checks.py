"""Checks of the spool: waiting events of live and ended processes, by destination."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracereel._export import destinations
from tracereel._export.destinations import Destination
from tracereel._export.orphaned_spools import OrphanedSpools, is_orphan
from tracereel._export.sender import DeliveryUnavailableError, KeyState, Sender
from tracereel._export.spool import LOCK_SUFFIX, REJECTED_SUFFIX, SEGMENT_SUFFIX, EmitterLock
from tracereel._export.spool_reader import SpoolReader
from tracereel.cli.checks import Check, writable
from tracereel.config import Config

QUESTION_SECONDS: Final = 5.0
"""Seconds to wait for the collector's response about a key."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Undelivered events of some emitters."""

    events: int = 0
    size: int = 0
    emitters: int = 0

    def plus(self, events: int, size: int) -> "Waiting":
        """Return a sum with one more emitter."""
        return Waiting(self.events + events, self.size + size, self.emitters + 1)

    def __str__(self) -> str:
        return f"{self.events} events ({self.size} bytes on disk) of {self.emitters} processes"


def spool(settings: Config) -> Iterator[Check]:
    """Check that the spool is writable, and report waiting events."""
    advice = "set TRACEREEL_SPOOL_DIR to a directory this user can write"
    yield writable("spool", settings.spool_dir, advice)
    living, dead = waiting(settings.destination_dir)
    yield Check("writable", "spool, running processes", "ok", str(living))
    if dead.events:
        detail = f"{dead} wait to be delivered"
        yield Check("writable", "spool, ended processes", "warn", detail, "run: tracereel ship")
    else:
        yield Check("writable", "spool, ended processes", "ok", "nothing waits")
    yield from _other_destinations(settings)
    yield from _rejected(settings.destination_dir)


def waiting(directory: Path) -> tuple[Waiting, Waiting]:
    """Count undelivered events of live and of ended emitters of one destination."""
    living, dead = Waiting(), Waiting()
    for lock_path in sorted(directory.glob(f"*{LOCK_SUFFIX}")):
        emitter_id = lock_path.name.removesuffix(LOCK_SUFFIX)
        events, size = (
            SpoolReader(directory, emitter_id).count(),
            _segment_bytes(directory, emitter_id),
        )
        if _is_dead(lock_path):
            dead = dead.plus(events, size)
        else:
            living = living.plus(events, size)
    return living, dead


def waiting_elsewhere(settings: Config) -> int:
    """Count events of ended processes that wait for another key or endpoint."""
    return sum(waiting(directory)[1].events for directory, _ in destinations.others(settings))


def _is_dead(lock_path: Path) -> bool:
    """Return whether the lock is free.

    The lock is taken for an instant; a concurrent shipper retries later.
    """
    try:
        lock = EmitterLock.take(lock_path, create=False)
    except OSError:
        return False
    if lock is None:
        return False
    lock.release(remove=False)
    return True


def _segment_bytes(directory: Path, emitter_id: str) -> int:
    return sum(
        _size(path)
        for path in directory.glob(f"{emitter_id}.*{SEGMENT_SUFFIX}")
        if not path.name.endswith(REJECTED_SUFFIX)
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # delivered and removed meanwhile
        return 0


def _other_destinations(settings: Config) -> Iterator[Check]:
    """Report events that wait for another key or endpoint, and how to deliver them."""
    sender = Sender(settings, timeout=QUESTION_SECONDS)
    try:
        states = dict(OrphanedSpools(settings, sender).states())
    except DeliveryUnavailableError:
        states = {}
    finally:
        sender.close()
    for directory, record in destinations.others(settings):
        _, dead = waiting(directory)
        if not dead.events:
            continue
        name, detail, advice = _stranded(settings, directory, record, states.get(directory))
        yield Check("writable", name, "warn", f"{dead} {detail}", advice)


def _stranded(
    settings: Config, directory: Path, record: Destination | None, state: KeyState | None
) -> tuple[str, str, str]:
    """Return name, detail and advice for a spool directory that is not this destination's."""
    if record is None:
        detail = f"wait in {directory}; which endpoint and key they were for is not known"
        advice = f"run: tracereel ship --from {shlex.quote(str(directory))}"
        return "spool, stranded", detail, advice
    if record.endpoint != settings.endpoint:
        detail = f"wait for another endpoint, {record.endpoint}"
        advice = f"run: tracereel ship --endpoint {shlex.quote(record.endpoint)}, with its key"
        return "spool, other destination", detail, advice
    if is_orphan(state):
        return "spool, refused key", "wait under a key that is refused now", "run: tracereel ship"
    tenant = f"tenant {record.tenant}" if record.tenant else "a tenant that is not known"
    detail = f"wait in {directory} under another key, of {tenant}"
    advice = (
        f"run tracereel ship with that --api-key, or tracereel ship --from"
        f" {shlex.quote(str(directory))} with another key of that tenant"
    )
    return "spool, stranded", detail, advice


def _rejected(directory: Path) -> Iterator[Check]:
    files = sorted(directory.glob(f"*{REJECTED_SUFFIX}"))
    if files:
        detail = f"{len(files)} files with events the collector refused, in {directory}"
        advice = "each line says why; delete the files when done"
        yield Check("writable", "spool, refused events", "warn", detail, advice)
