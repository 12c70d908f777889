"""Fills columns of sums for what was stored before there were such columns, a bounded slice at a time.

Each statement adds what is missing, and where nothing is missing, nothing: it may be interrupted, and
run again, without anything being counted twice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Template
from typing import Any, Final, Protocol

from tracereel_collector.store import rollup_agents, rollup_costs
from tracereel_collector.store.shards import SHARDED
from tracereel_collector.store.sql import query
from tracereel_collector.store.tab_separated import rows_of

SLICE_ROWS: Final = 500_000
"""Events and spans that one statement looks at, about, which takes a few seconds however large a day is."""


class Fills(Protocol):
    """What filling needs of the store."""

    def rows(self, statement: str, /) -> list[tuple[str, ...]]:
        """Run a query and return its rows as text."""
        ...

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...

    def change(self, statement: str, parameters: Mapping[str, Any], /) -> None:
        """Run a bound statement that changes rows; returns when they have changed."""
        ...

    def fill(self, statement: str, parameters: Mapping[str, Any], /, *, name: str) -> None:
        """Run a bound INSERT … SELECT; on a server, one of a name at a time."""
        ...


@dataclass(frozen=True, slots=True)
class Backfill:
    """A column, and the queries that find the parts it is missing in and fill one of them.

    The name of a part ends with a day; when that is over, the part is done for good.
    """

    what: str
    parts: str
    statements: tuple[str, ...]

    def missing(self, store: Fills) -> dict[str, int]:
        """The parts that it was not done for, with their rows, in order."""
        found = store.select(query(self.parts), {"what": self.what}, fmt="TabSeparated")
        return {part: int(rows) for part, rows in rows_of(found)}

    def slices(self, part: str, rows: int, *, slice_rows: int) -> Iterator[dict[str, Any]]:
        """What is to be filled at a time."""
        slices = max(1, -(-rows // slice_rows))
        for number in range(slices):
            yield {"part": part, "slices": slices, "slice": number}

    def fill(self, store: Fills, chosen: Mapping[str, Any]) -> None:
        """Add what is missing in a slice."""
        for name in self.statements:
            statement = Template(query(name)).substitute(_FRAGMENTS)
            store.fill(statement, chosen, name=f"tracereel backfill: {self.what}")

    def note(self, store: Fills, part: str) -> None:
        """It is done there."""
        store.change(query("backfill_note"), {"what": self.what, "part": part})


_FRAGMENTS: Final = {**rollup_costs.BACKFILL, **rollup_agents.BACKFILL}
RUN_COSTS: Final = Backfill(
    "trace_summaries.call_unpriced", "backfill_run_costs_parts", ("backfill_run_costs",)
)
AGENT_COSTS: Final = Backfill(
    "agent_minutes.unpriced_tokens",
    "backfill_agent_costs_parts",
    ("backfill_agent_costs", "backfill_agent_hours"),
)
ALL: Final = (RUN_COSTS, AGENT_COSTS)


def on_cluster(store: Fills) -> bool:
    """Whether tables are spread over shards: there nobody keeps two nodes from filling at a time."""
    return bool(store.rows(SHARDED))
