"""Start parameters of a worker process, one line of JSON on its standard input."""

from dataclasses import dataclass

from pydantic import TypeAdapter

from tracereel_collector.config import Settings
from tracereel_collector.store.clickhouse import StoreAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Sockets, pipes, files and settings of a worker process."""

    settings: Settings
    store: StoreAddress
    bell_fd: int
    """Pipe that wakes up the queue's owner after an append."""
    metrics_dir: str
    state_file: str
    """JSON state of the parent and the engine, for the health routes."""
    slot: int = 0
    listen_fd: int = 0
    delivered_fd: int = 0
    """Pipe that wakes up the worker after a delivery."""

    def line(self) -> bytes:
        """Serialise for standard input; the secrets must not be on the command line."""
        return _ADAPTER.dump_json(self) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> "Link":
        """Parse the result of `line`."""
        return _ADAPTER.validate_json(line)


_ADAPTER = TypeAdapter(Link)
