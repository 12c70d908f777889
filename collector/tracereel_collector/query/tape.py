"""The tape of a run: its recorded calls, as the SDK needs them to re-execute it."""

from dataclasses import dataclass
from typing import Final

import msgspec

from tracereel_collector.errors import NotFoundError
from tracereel_collector.query.replay import Selects
from tracereel_collector.store.sql import query

MAX_PARTS: Final = 100_000
"""More parts than a tape may have; what is beyond is left out, and the SDK sees that the end is missing."""


@dataclass(frozen=True, slots=True)
class Tapes:
    """Answers `GET /v1/traces/{trace_id}/tape`."""

    store: Selects

    def lines(self, tenant: str, trace_id: str) -> bytes:
        """The parts as NDJSON, each the event that carried it, byte for byte.

        Raises:
            NotFoundError: this tenant has no tape of that trace.
        """
        answer = self.store.select(
            query("tape"),
            {"tenant": tenant, "trace_id": trace_id, "limit": MAX_PARTS},
            fmt="JSONCompactEachRow",
        )
        rows: list[list[str]] = _ROWS.decode_lines(answer)
        if not rows:
            raise NotFoundError(
                f"no tape of trace {trace_id!r}",
                hint=f"why there is none: GET /v1/traces/{trace_id}/replayable",
            )
        return b"".join(row[0].encode().rstrip() + b"\n" for row in rows)


_ROWS: Final = msgspec.json.Decoder(list[str])
