"""What waits in the spool: events of living and ended processes, for here and elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracereel._outbox import Outbox
from tracereel._spool import LOCK_SUFFIX, REJECTED_SUFFIX, SEGMENT_SUFFIX, EmitterLock
from tracereel.cli.checks import Check, writable
from tracereel.config import Config


@dataclass(frozen=True, slots=True)
class Waiting:
    """Undelivered events of some emitters."""

    events: int = 0
    size: int = 0
    emitters: int = 0

    def plus(self, events: int, size: int) -> "Waiting":
        """This and one more emitter that has so much waiting."""
        return Waiting(self.events + events, self.size + size, self.emitters + 1)

    def __str__(self) -> str:
        return f"{self.events} events ({self.size} bytes on disk) of {self.emitters} processes"


def spool(settings: Config) -> Iterator[Check]:
    """Whether the spool can be written, and what waits in it."""
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
    """What living and what ended emitters of one destination have not delivered yet."""
    living, dead = Waiting(), Waiting()
    for lock_path in sorted(directory.glob(f"*{LOCK_SUFFIX}")):
        emitter_id = lock_path.name.removesuffix(LOCK_SUFFIX)
        events, size = Outbox(directory, emitter_id).count(), _segment_bytes(directory, emitter_id)
        if _is_dead(lock_path):
            dead = dead.plus(events, size)
        else:
            living = living.plus(events, size)
    return living, dead


def _is_dead(lock_path: Path) -> bool:
    """Whether nobody holds the lock. It is held for an instant: a shipper then comes back later."""
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
    for directory in sorted(settings.spool_dir.glob("*/")):
        if directory == settings.destination_dir:
            continue
        _, dead = waiting(directory)
        if dead.events:
            detail = f"{dead} wait for another endpoint or key ({directory.name})"
            advice = "run tracereel ship with that --endpoint and --api-key"
            yield Check("writable", "spool, other destination", "warn", detail, advice)


def _rejected(directory: Path) -> Iterator[Check]:
    files = sorted(directory.glob(f"*{REJECTED_SUFFIX}"))
    if files:
        detail = f"{len(files)} files with events the collector refused, in {directory}"
        advice = "each line says why; delete the files when done"
        yield Check("writable", "spool, refused events", "warn", detail, advice)
