"""What the engine can be told: one frozen value, handed to the child as JSON."""

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

MIB = 1024 * 1024
_MEMORY_SHARE = 0.5
_MEMORY_FLOOR = 512 * MIB
_MEMORY_CEILING = 16 * 1024 * MIB


def default_memory() -> int:
    """Half of the machine's memory, never below 512 MiB nor above 16 GiB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(min(_MEMORY_CEILING, max(_MEMORY_FLOOR, total * _MEMORY_SHARE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Everything about one engine; the defaults suit two cores and a laptop."""

    store_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free port; it stays the same for the life of the supervisor."""

    database: str = "tracereel"
    """Where a request without a database lands: embedded `default` maps names to files."""

    max_server_memory: int = 0
    """Bytes; 0 means half of the machine's memory."""
    mark_cache_bytes: int = 256 * MIB
    background_threads: int = 2
    max_query_seconds: int = 300
    """Default of `max_execution_time`; a request may ask for another."""

    max_queries: int = 8
    max_connections: int = 128
    queue_seconds: float = 20.0
    """How long a query may wait for a free slot before it is answered with 202 / 503."""
    max_body_bytes: int = 256 * MIB
    """Of one request, after decompression."""
    max_sql_bytes: int = 8 * MIB
    spool_memory_bytes: int = 128 * MIB
    """All request bodies together; what does not fit goes to an unnamed file."""
    idle_seconds: float = 300.0
    """A connection without a request is closed after this."""
    stall_seconds: float = 60.0
    """A peer that neither sends nor takes a byte for this long is dropped."""
    idle_handles: int = 32

    lock_wait_seconds: float = 10.0
    start_seconds: float = 60.0
    stop_seconds: float = 5.0
    """Running requests get this long to finish after SIGTERM."""
    ping_interval_seconds: float = 10.0
    ping_timeout_seconds: float = 10.0
    ping_failures: int = 3
    backoff_first_seconds: float = 0.1
    backoff_last_seconds: float = 5.0

    @property
    def lock_file(self) -> Path:
        return self.store_dir / "engine.lock"

    @property
    def secret_file(self) -> Path:
        return self.store_dir / "engine.secret"

    @property
    def address_file(self) -> Path:
        return self.store_dir / "engine.address"

    @property
    def data_dir(self) -> Path:
        return self.store_dir / "clickhouse"

    @property
    def work_dir(self) -> Path:
        return self.store_dir / "engine"

    @property
    def backup_dir(self) -> Path:
        return self.store_dir / "backups"

    @property
    def server_memory(self) -> int:
        return self.max_server_memory or default_memory()

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "store_dir": str(self.store_dir)})

    @classmethod
    def from_json(cls, text: str) -> "EngineSettings":
        values = json.loads(text)
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"unknown engine settings {unknown}; known are {sorted(known)}")
        return cls(**{**values, "store_dir": Path(values["store_dir"])})
