"""Store interface for migrations, deletion, retention, copies and backups."""

from collections.abc import Mapping
from typing import Any, Protocol


class StoreAccess(Protocol):
    """Statements on the store; `ClickHouseStore` implements it."""

    def command(self, statement: str, /) -> None:
        """Run a statement without a result."""
        ...

    def rows(self, statement: str, /) -> list[tuple[str, ...]]:
        """Run a query and return its rows as text."""
        ...

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; return the response's bytes in a ClickHouse format."""
        ...

    def change(self, statement: str, parameters: Mapping[str, Any], /) -> None:
        """Run a bound statement that changes rows; return when it is applied."""
        ...
