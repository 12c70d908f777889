"""What a worker process is told by its parent, as one line of JSON on its standard input."""

from dataclasses import dataclass

from pydantic import TypeAdapter

from tracereel_collector.config import Settings
from tracereel_collector.store.clickhouse import StoreAddress

READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Where a worker's place is between the listening socket, the queue's owner and the store."""

    slot: int
    settings: Settings
    store: StoreAddress
    listen_fd: int
    bell_fd: int
    """Rings the owner: something was appended."""
    delivered_fd: int
    """Rings here: something was delivered."""
    metrics_dir: str
    state_file: str
    """What the parent tells of itself and the engine, for the health pages."""

    def line(self) -> bytes:
        """As the child reads it; it holds secrets, which is why it is not on the command line."""
        return _ADAPTER.dump_json(self) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> "Link":
        """The inverse of `line`."""
        return _ADAPTER.validate_json(line)


_ADAPTER = TypeAdapter(Link)
