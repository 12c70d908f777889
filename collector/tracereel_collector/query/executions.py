"""The executions of agents in the runs of a list, in order: what a strip beside each run shows."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from tracereel_collector.store.sql import query

MAX_EXECUTIONS = 100


class Selects(Protocol):
    """What a query needs of the store."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...


_ROWS = msgspec.json.Decoder(tuple[str, str, str])


def executions_of(
    store: Selects, tenant: str, runs: Iterable[str], *, most: int
) -> dict[str, list[dict[str, str]]]:
    """The first executions of each run; runs that are known by spans alone have none."""
    asked = list(runs)
    found: dict[str, list[dict[str, str]]] = {run: [] for run in asked}
    if not asked:
        return found
    answer = store.select(
        query("run_executions"),
        {"tenant": tenant, "runs": asked, "most": most},
        fmt="JSONCompactEachRow",
    )
    for run, agent, status in _ROWS.decode_lines(answer):
        found[run].append({"agent": agent, "status": status})
    return found
