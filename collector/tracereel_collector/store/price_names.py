"""Names of called models and whose price each has: looked up once, so that reads need only a join."""

from collections.abc import Mapping
from string import Template
from typing import Any, Final, Protocol

from tracereel_collector.store.price_sql import FRAGMENTS
from tracereel_collector.store.sql import query

AT_ONCE: Final = 1_000
"""Names that are looked up by one statement."""
MAX_NAMES: Final = 20_000
"""Names of one revision of the prices; models beyond them have no price."""

_FIND: Final = Template(query("name_prices")).substitute(FRAGMENTS)


class PriceStore(Protocol):
    """Store whose table of names is kept up to date."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Return the result in a ClickHouse format."""
        ...

    def change(self, statement: str, parameters: Mapping[str, Any], /) -> None:
        """Run a statement that changes rows."""
        ...


def find_prices(store: PriceStore) -> None:
    """Look up the prices of models that were called for the first time."""
    for _ in range(MAX_NAMES // AT_ONCE):
        waiting, known = _counts(store)
        if not waiting or known >= MAX_NAMES:
            return
        store.change(_FIND, {"names": AT_ONCE})


def _counts(store: PriceStore) -> tuple[int, int]:
    waiting, known = store.select(query("unnamed_prices"), {}, fmt="TabSeparated").split()
    return int(waiting), int(known)
