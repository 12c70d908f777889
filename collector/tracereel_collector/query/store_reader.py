"""Store interface that queries use, and the decoding of its rows."""

from collections.abc import Hashable, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec

Row = TypeVar("Row")


class StoreReader(Protocol):
    """Reader that runs a `SELECT`."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Return the result in a ClickHouse format."""
        ...


def read_rows(
    store: StoreReader, statement: str, row: type[Row], /, **parameters: Any
) -> list[Row]:
    """Run a statement with bound parameters and decode its rows; dataclasses by column names."""
    by_name = is_dataclass(row)
    answer = store.select(
        statement, parameters, fmt="JSONEachRow" if by_name else "JSONCompactEachRow"
    )
    kind: Any = row
    rows: list[Row] = _decoder(kind).decode_lines(answer)
    return rows


def shown_row(row: msgspec.Struct, **others: Any) -> dict[str, Any]:
    """Return a row by its encoded field names, empty strings as `None`, with further fields."""
    values = zip(row.__struct_encode_fields__, msgspec.structs.astuple(row), strict=True)
    return {name: None if value == "" else value for name, value in values} | others


def usd(nano_usd: int) -> float | None:
    """Return a cost in dollars; `None` if it is 0, which means unknown."""
    return nano_usd / 1e9 if nano_usd else None


@cache
def _decoder(row: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(row)
