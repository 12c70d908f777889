"""Store interface that queries use."""

from collections.abc import Mapping
from typing import Any, Protocol


class StoreReader(Protocol):
    """Reader that runs a `SELECT`."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Return the result in a ClickHouse format."""
        ...
