"""Tapes of many runs at once, as much as fits into one answer."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from tracereel_collector.query.event_contents import EventContents, StoredPayload
from tracereel_collector.query.replayable import MAX_PARTS, TapeName, tapes_of
from tracereel_collector.query.store_reader import StoreReader, read_rows
from tracereel_collector.store.sql import query

MAX_RUNS: Final = 100
MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one answer; its first tape may be larger."""


@dataclass(frozen=True, slots=True)
class ManyTapes:
    """Query of `GET /v1/tapes`."""

    store: StoreReader
    max_bytes: int = MAX_BYTES

    def lines(self, tenant: str, trace_ids: list[str]) -> bytes:
        """Return the parts of the root tapes as NDJSON, `{"trace_id", "part"}`.

        The last line, `{"rest": […]}`, names the runs that did not fit; runs without a tape have no
        line.
        """
        trace_ids = list(dict.fromkeys(trace_ids))
        named = tapes_of(self.store, tenant, trace_ids)
        roots = {trace_id: tapes[0] for trace_id, tapes in named.items() if tapes}
        fitting, rest = self._fitting(tenant, roots)
        lines = self._parts(tenant, fitting) if fitting else []
        return b"".join((*lines, msgspec.json.encode({"rest": rest}), b"\n"))

    def _fitting(self, tenant: str, roots: dict[str, TapeName]) -> tuple[list[TapeName], list[str]]:
        """Return the tapes that fit into an answer, and the runs of the others."""
        if not roots:
            return [], []
        rows = read_rows(
            *(self.store, query("tape_sizes"), tuple[str, int]), **_bound(tenant, roots.values())
        )
        sizes, left = dict(rows), self.max_bytes
        fitting: list[TapeName] = []
        for trace_id, root in roots.items():
            left -= sizes.get(trace_id, 0)
            if left < 0 and fitting:
                break
            fitting.append(root)
        return fitting, list(roots)[len(fitting) :]

    def _parts(self, tenant: str, tapes: list[TapeName]) -> list[bytes]:
        rows = read_rows(
            *(self.store, query("tapes"), tuple[str, int, str]),
            **_bound(tenant, tapes),
            limit=MAX_PARTS,
        )
        stored = [StoredPayload(number, payload) for _, number, payload in rows]
        parts = EventContents(self.store, max_bytes=sys.maxsize).whole(tenant, stored)
        return [
            b'{"trace_id":%b,"part":%b}\n' % (msgspec.json.encode(row[0]), part.strip().encode())
            for row, part in zip(rows, parts, strict=True)
        ]


def _bound(tenant: str, tapes: Iterable[TapeName]) -> dict[str, object]:
    named = list(tapes)
    return {
        "tenant": tenant,
        "trace_ids": [each.trace_id for each in named],
        "emitter_ids": [each.emitter_id for each in named],
        "tape_ids": [each.tape_id for each in named],
    }
