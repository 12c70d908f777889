"""Agent executions of listed runs, in order, for the status strip of each run."""

from collections.abc import Iterable

import msgspec

from tracereel_collector.query.store_reader import StoreReader
from tracereel_collector.store.sql import query

MAX_EXECUTIONS = 100


_ROWS = msgspec.json.Decoder(tuple[str, str, str])


def executions_of(
    store: StoreReader, tenant: str, runs: Iterable[str], *, most: int
) -> dict[str, list[dict[str, str]]]:
    """Return the first executions of each run; runs known only from spans have none."""
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
