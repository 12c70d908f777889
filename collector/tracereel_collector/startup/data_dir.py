"""Data directory: layout, lock, and access to its embedded store."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from tracereel_collector.config import Settings
from tracereel_collector.engine.lock import StoreInUseError, StoreLock
from tracereel_collector.engine.settings import ADDRESS_FILE, SECRET_FILE, EngineSettings
from tracereel_collector.engine.supervisor import Supervisor
from tracereel_collector.errors import StartupError
from tracereel_collector.query.user_sql import SqlLimits
from tracereel_collector.queue import QueueLimits
from tracereel_collector.queue.snapshot import newest_unix_nano
from tracereel_collector.runtime.clock import TrustedClock
from tracereel_collector.runtime.permissions import mode_open_to_others
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress

log = structlog.get_logger(__name__)

QUEUE_FILE = Path("queue", "queue.sqlite")
STORE_DIR = "store"
DATABASE = "tracereel"
MAINTENANCE_SECONDS = 12 * 3600.0
"""Time limit of a statement of backups and copies, which grow with the data."""

OnEvent = Callable[[str, Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class ReachedStore:
    """Address of a collector's store."""

    address: StoreAddress
    is_served: bool
    """Whether a collector runs; if not, this process holds the data directory's lock."""


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """Hold the lock of the data directory.

    Raises:
        StartupError: another process holds it, or the directory cannot be used.
    """
    lock = _lock(data_dir, make=True)
    if (mode := mode_open_to_others(data_dir)) is not None:
        log.warning("data_dir_open", path=str(data_dir), mode=mode, advice=f"chmod 700 {data_dir}")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def reached_store(settings: Settings) -> Iterator[ReachedStore]:
    """Yield the store of a data directory, whether its collector runs or not.

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
    """Start the embedded engine and return its supervisor.

    Raises:
        StartupError: it cannot start, or another process holds its directory.
    """
    wanted = EngineSettings(
        store_dir=settings.data_dir / STORE_DIR,
        database=DATABASE,
        max_server_memory=settings.engine_memory_bytes,
    )
    # A slow reader keeps its SQL query running, so user SQL gets slots of its own.
    slots = wanted.max_queries + SqlLimits().at_once * max(1, settings.workers)
    engine = Supervisor(replace(wanted, max_queries=slots), on_event=on_event)
    try:
        engine.start()
    except BaseException:
        engine.stop()
        raise
    return engine


def engine_address(engine: Supervisor) -> StoreAddress:
    """Return the address of a running engine."""
    return StoreAddress(
        host=engine.host,
        port=engine.port,
        username="tracereel",
        password=engine.secret,
        database=DATABASE,
        is_own=True,
    )


def maintenance_store(address: StoreAddress) -> ClickHouseStore:
    """Create a store client for statements that may take hours."""
    return ClickHouseStore(address, query_seconds=MAINTENANCE_SECONDS, query_memory_bytes=0)


def clock_of(settings: Settings, *, is_owner: bool = False) -> TrustedClock:
    """Return the trusted clock of the data directory; only one process may own it."""
    queue = settings.data_dir / QUEUE_FILE
    return TrustedClock(
        settings.data_dir, is_owner=is_owner, last_known_nano=lambda: newest_unix_nano(queue)
    )


def queue_limits(settings: Settings) -> QueueLimits:
    """Return the queue limits from the settings."""
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
    store_dir = data_dir / STORE_DIR
    try:
        host, port = (store_dir / ADDRESS_FILE).read_text(encoding="ascii").split()
        secret = (store_dir / SECRET_FILE).read_text(encoding="ascii").strip()
        return StoreAddress(
            host=host,
            port=int(port),
            username="tracereel",
            password=secret,
            database=DATABASE,
            is_own=True,
        )
    except (OSError, ValueError) as error:
        raise StartupError(
            f"a collector holds {data_dir}, but its store cannot be found: {error}",
            hint="is it starting, or does it use a ClickHouse server?",
        ) from error
