"""Engine settings: one frozen value, passed to the child process as JSON."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tracereel_collector.engine.memory import usable_memory

LOCK_FILE, SECRET_FILE, ADDRESS_FILE = "engine.lock", "engine.secret", "engine.address"
DATA_DIR, WORK_DIR, BACKUP_DIR = "clickhouse", "engine", "backups"
"""Files and directories in the store directory."""
MIB = 1024 * 1024
_MEMORY_SHARE = 0.5
_MEMORY_FLOOR = 256 * MIB
_MEMORY_CEILING = 16 * 1024 * MIB


def default_memory() -> int:
    """Return half of the usable memory, between 256 MiB and 16 GiB."""
    return int(min(_MEMORY_CEILING, max(_MEMORY_FLOOR, usable_memory() * _MEMORY_SHARE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Settings of one engine; the defaults suit two cores and a laptop."""

    store_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    """Port; 0 picks a free one, which stays the same for the supervisor's lifetime."""

    database: str = "tracereel"
    """Default database of requests; the embedded `default` maps table names to files."""

    max_server_memory: int = 0
    """Bytes; 0 means half of the memory of the machine or container."""
    mark_cache_bytes: int = 256 * MIB
    background_threads: int = 2
    max_query_seconds: int = 300
    """Default of `max_execution_time`; a request may override it."""

    max_queries: int = 8
    max_connections: int = 128
    """Maximum number of authenticated connections."""
    max_unknown_connections: int = 32
    """Maximum number of other connections; the oldest is closed for a new one."""
    head_seconds: float = 5.0
    """Time limit for a request's head, from the connection or its first byte on."""
    queue_seconds: float = 20.0
    """Time that a query may wait for a free slot. Then it fails with error 202, status 503."""
    max_body_bytes: int = 256 * MIB
    """Maximum body size of a request, after decompression."""
    max_sql_bytes: int = 8 * MIB
    spool_memory_bytes: int = 128 * MIB
    """Memory for all request bodies; the excess goes to an unnamed file."""
    idle_seconds: float = 300.0
    """Time until an idle connection is closed."""
    stall_seconds: float = 60.0
    """Time until a peer that neither sends nor receives is disconnected."""
    idle_handles: int = 32

    lock_wait_seconds: float = 10.0
    start_seconds: float = 60.0
    stop_seconds: float = 5.0
    """Time for running requests to finish after SIGTERM."""
    ping_interval_seconds: float = 10.0
    ping_timeout_seconds: float = 10.0
    ping_failures: int = 3
    backoff_first_seconds: float = 0.1
    backoff_last_seconds: float = 5.0

    @property
    def insert_bytes(self) -> int:
        """Most bytes of one insert, which takes many times its size in memory."""
        return self.server_memory // 32

    @property
    def server_memory(self) -> int:
        """Bytes that the engine may use, as configured or by default."""
        return self.max_server_memory or default_memory()

    @property
    def mark_cache(self) -> int:
        """Bytes of the mark cache: as configured, at most a quarter of the memory."""
        return min(self.mark_cache_bytes, self.server_memory // 4)

    def to_json(self) -> str:
        """Serialise for the child's command line."""
        return json.dumps({**asdict(self), "store_dir": str(self.store_dir)})

    @classmethod
    def from_json(cls, text: str) -> "EngineSettings":
        """Parse the result of `to_json`."""
        values = json.loads(text)
        return cls(**{**values, "store_dir": Path(values["store_dir"])})
