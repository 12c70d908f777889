"""Store on its own engine, for tests and benchmarks without a collector."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tracereel_collector.engine.settings import EngineSettings
from tracereel_collector.engine.supervisor import Supervisor
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.migrate import migrate


def address_of(engine: Supervisor) -> StoreAddress:
    """Return the address of a running engine, with the database of a collector."""
    return StoreAddress(
        host=engine.host,
        port=engine.port,
        username="tracereel",
        password=engine.secret,
        database="tracereel",
        is_own=True,
    )


def store_at(
    address: StoreAddress, database: str = "tracereel", *, memory: int = 1 << 30
) -> ClickHouseStore:
    """Return a store on a database, without tables."""
    return ClickHouseStore(
        replace(address, database=database), query_seconds=60, query_memory_bytes=memory
    )


def store_on(
    engine: Supervisor, *, database: str = "tracereel", memory: int = 1 << 30
) -> ClickHouseStore:
    """Return a store on a running engine, without tables."""
    return store_at(address_of(engine), database, memory=memory)


@contextmanager
def store_of_its_own(*, memory: int = 1 << 30) -> Iterator[ClickHouseStore]:
    """Return a store with all tables, on an engine that ends with it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Supervisor(EngineSettings(store_dir=Path(folder))) as engine,
    ):
        store = store_on(engine, memory=memory)
        try:
            store.prepare()
            migrate(store)
            yield store
        finally:
            store.close()
