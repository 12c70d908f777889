"""Removal of emitters that have been silent for `SILENT_DAYS`."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import msgspec

from tracereel_collector.runtime.clock import Dating
from tracereel_collector.store.access import StoreAccess
from tracereel_collector.store.retention import but_not
from tracereel_collector.store.shards import Shards

SILENT_DAYS: Final = 90
MAX_IDS: Final = 5_000
"""Emitters per statement; the rest is removed in the next sweep."""
_TABLES: Final = (("emitters", "received_at"), ("emitter_numbers", "heard_at"))
_IDS = msgspec.json.Decoder(tuple[str, list[str]])


def silent_emitters(store: StoreAccess, dating: Dating) -> Iterator[tuple[str, str, list[str]]]:
    """Yield table, tenant and ids of emitters that have been silent too long."""
    first_kept = dating.today - timedelta(days=SILENT_DAYS)
    for table, at in _TABLES:
        answer = store.select(
            "SELECT tenant, groupArray(emitter_id) FROM ("
            f"SELECT tenant, emitter_id, toDate(max({at})) AS day FROM `{table}`"
            " GROUP BY tenant, emitter_id HAVING day < {first_kept:Date}"
            f"{but_not('day', dating.kept_days(first_kept))}"
            f" ORDER BY tenant, emitter_id LIMIT {MAX_IDS}) GROUP BY tenant ORDER BY tenant",
            {"first_kept": first_kept.isoformat()},
            fmt="JSONCompactEachRow",
        )
        for tenant, ids in _IDS.decode_lines(answer):
            yield table, tenant, ids


def forget_emitters(store: StoreAccess, table: str, tenant: str, ids: list[str]) -> None:
    """Delete the rows of some emitters."""
    store.change(
        f"ALTER TABLE {Shards.of(store).changed(table)} DELETE"
        " WHERE tenant = {tenant:String} AND emitter_id IN {ids:Array(String)}",
        {"tenant": tenant, "ids": ids},
    )
