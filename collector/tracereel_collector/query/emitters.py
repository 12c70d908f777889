"""Who emits: each emitter with its state, what it claims to have recorded, and what is missing of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from tracereel_collector.store.sql import query

MAX_EMITTERS = 1_000


class Selects(Protocol):
    """What a query needs of the store."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...


class _Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One line of `emitters.sql`, in its order of columns; also the order of the answer."""

    emitter_id: str
    state: str
    service: str
    host: str
    pid: int | None
    sdk_version: str
    started_at: str | None
    last_heartbeat_at: str | None
    last_event_at: str | None
    interval_seconds: float | None
    claimed: int
    stored: int
    refused: int
    missing: int
    spooled: int
    dropped: dict[str, int]


_ROWS = msgspec.json.Decoder(_Row)


@dataclass(frozen=True, slots=True)
class Emitters:
    """Answers `GET /v1/emitters`."""

    store: Selects

    def document(
        self,
        tenant: str,
        *,
        now_unix_milli: int,
        emitter_id: str = "",
        state: str = "",
        service: str = "",
        limit: int = 100,
    ) -> bytes:
        """The emitters as JSON, the one heard of last first."""
        answer = self.store.select(
            query("emitters"),
            {
                "tenant": tenant,
                "now": now_unix_milli,
                "emitter_id": emitter_id,
                "state": state,
                "service": service,
                "limit": min(limit, MAX_EMITTERS),
            },
            fmt="JSONCompactEachRow",
        )
        rows = _ROWS.decode_lines(answer)
        return msgspec.json.encode({"emitters": [_shown(row) for row in rows]})


def _shown(row: _Row) -> dict[str, Any]:
    """Empty texts are what nobody has told."""
    return {
        name: None if value == "" else value
        for name, value in ((name, getattr(row, name)) for name in row.__struct_fields__)
    }
