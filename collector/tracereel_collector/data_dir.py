"""A data directory: where its parts are, who holds it, and how its embedded store is reached."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tracereel_collector.config import Settings
from tracereel_collector.engine.lock import StoreInUseError, StoreLock
from tracereel_collector.engine.settings import EngineSettings
from tracereel_collector.engine.supervisor import EngineStartError, Supervisor
from tracereel_collector.errors import StartupError
from tracereel_collector.queue import QueueLimits
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress

QUEUE_FILE = Path("queue", "queue.sqlite")
STORE_DIR = "store"
DATABASE = "tracereel"
MAINTENANCE_SECONDS = 12 * 3600.0
"""Longest statement of a backup or a copy: they take as long as the data is large."""

OnEvent = Callable[[str, Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class ReachedStore:
    """The store of a collector."""

    address: StoreAddress
    is_served: bool
    """Whether a collector runs; else the data directory, and an embedded store, are ours alone."""


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """The data directory for us alone; whoever comes second is told who has it.

    Raises:
        StartupError: another has it, or it cannot be used.
    """
    lock = _lock(data_dir, make=True)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def reached_store(settings: Settings) -> Iterator[ReachedStore]:
    """The store of a data directory's collector, whether that runs or not.

    Raises:
        StartupError: there is no such directory, or its embedded store does not start.
    """
    data_dir = settings.data_dir
    embedded = settings.store == "embedded"
    if embedded and not (data_dir / STORE_DIR).is_dir():
        raise StartupError(
            f"there is no embedded store in {data_dir}", hint="choose another with --data-dir"
        )
    server = None if embedded else StoreAddress.parse(settings.store)
    try:
        lock = _lock(data_dir, make=False)
    except StartupError as error:
        if not isinstance(error.__cause__, StoreInUseError):
            raise
        yield ReachedStore(server or _address_of_running(data_dir), is_served=True)
        return
    engine = None
    try:
        engine = start_engine(settings) if server is None else None
        address = server or engine_address(engine)  # type: ignore[arg-type] # one of the two is
        yield ReachedStore(address, is_served=False)
    finally:
        if engine is not None:
            engine.stop()
        lock.release()


def start_engine(settings: Settings, *, on_event: OnEvent | None = None) -> Supervisor:
    """The embedded engine, started and answering.

    Raises:
        StartupError: it cannot start, or somebody else holds its directory.
    """
    engine = Supervisor(
        EngineSettings(store_dir=settings.data_dir / STORE_DIR, database=DATABASE),
        on_event=on_event,
    )
    try:
        engine.start()
    except BaseException:
        engine.stop()
        raise
    return engine


def engine_address(engine: Supervisor) -> StoreAddress:
    """How to reach a running engine."""
    return StoreAddress(
        host=engine.host,
        port=engine.port,
        username="tracereel",
        password=engine.secret,
        database=DATABASE,
    )


def maintenance_store(address: StoreAddress) -> ClickHouseStore:
    """A store for statements that may take hours."""
    return ClickHouseStore(address, query_seconds=MAINTENANCE_SECONDS, query_memory_bytes=0)


def queue_limits(settings: Settings) -> QueueLimits:
    """What the settings say of the queue."""
    return QueueLimits(
        commit_bytes=settings.commit_bytes,
        max_pending_bytes=settings.max_pending_bytes,
        retain_seconds=settings.retain_seconds,
        min_free_bytes=settings.min_free_bytes,
    )


def _lock(data_dir: Path, *, make: bool) -> StoreLock:
    try:
        if make:
            data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        return StoreLock.acquire(data_dir / "serve.lock", wait_seconds=0, owner="another collector")
    except StoreInUseError as error:
        raise StartupError(str(error)) from error
    except OSError as error:
        raise StartupError(
            f"cannot use {data_dir}: {error.strerror}", hint="choose another with --data-dir"
        ) from error


def _address_of_running(data_dir: Path) -> StoreAddress:
    files = EngineSettings(store_dir=data_dir / STORE_DIR)
    try:
        host, port = files.address_file.read_text(encoding="ascii").split()
        secret = files.secret_file.read_text(encoding="ascii").strip()
        return StoreAddress(
            host=host, port=int(port), username="tracereel", password=secret, database=DATABASE
        )
    except (OSError, ValueError) as error:
        raise StartupError(
            f"a collector holds {data_dir}, but its store cannot be found: {error}",
            hint="is it starting, or does it use a ClickHouse server?",
        ) from error


__all__ = [
    "QUEUE_FILE",
    "EngineStartError",
    "ReachedStore",
    "engine_address",
    "held",
    "maintenance_store",
    "queue_limits",
    "reached_store",
    "start_engine",
]
