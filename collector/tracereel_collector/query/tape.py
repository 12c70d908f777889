"""Tape of a run: its recorded calls, in the form that the SDK re-executes."""

from dataclasses import dataclass
from typing import Final

import msgspec

from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.query.store_reader import StoreReader
from tracereel_collector.store.sql import query

MAX_PARTS: Final = 100_000
"""Parts returned of a tape; if more exist, the SDK detects the missing end."""
MAX_TAPES: Final = 50
"""Tapes listed per run, one per emitter."""


@dataclass(frozen=True, slots=True)
class TapeName:
    """Identity of one tape of a run: recording emitter and tape id."""

    trace_id: str
    emitter_id: str
    tape_id: str


def tapes_of(store: StoreReader, tenant: str, trace_ids: list[str]) -> dict[str, list[TapeName]]:
    """List the tapes of runs, one per emitter; the first one is the root tape.

    The root tape is that of the emitter that began the run. If that emitter recorded none, it is the
    tape that arrived first.
    """
    given = {"tenant": tenant, "trace_ids": trace_ids, "limit": MAX_TAPES}
    answer = store.select(query("tapes_of_runs"), given, fmt="JSONCompactEachRow")
    found: dict[str, list[TapeName]] = {trace_id: [] for trace_id in trace_ids}
    for row in _NAMES.decode_lines(answer):
        found[row[0]].append(TapeName(*row))
    return found


@dataclass(frozen=True, slots=True)
class Tapes:
    """Query of `GET /v1/traces/{trace_id}/tape`."""

    store: StoreReader

    def lines(self, tenant: str, trace_id: str, emitter_id: str | None = None) -> bytes:
        """Return the parts as NDJSON; each line is the event as sent.

        Args:
            tenant: owner of the run.
            trace_id: id of the run.
            emitter_id: emitter of the tape; default: the root tape.

        Raises:
            UnknownResourceError: the tenant has no such tape.
        """
        tapes = tapes_of(self.store, tenant, [trace_id])[trace_id]
        if emitter_id is not None:
            tapes = [tape for tape in tapes if tape.emitter_id == emitter_id]
        if not tapes:
            by = f" by emitter {emitter_id!r}" if emitter_id is not None else ""
            raise UnknownResourceError(
                f"no tape of trace {trace_id!r}{by}",
                hint=f"why there is none: GET /v1/traces/{trace_id}/replayable",
            )
        answer = self.store.select(
            query("tape"),
            {
                "tenant": tenant,
                "trace_id": trace_id,
                "emitter_id": tapes[0].emitter_id,
                "tape_id": tapes[0].tape_id,
                "limit": MAX_PARTS,
            },
            fmt="JSONCompactEachRow",
        )
        rows: list[list[str]] = _ROWS.decode_lines(answer)
        return b"".join(row[0].encode().rstrip() + b"\n" for row in rows)


_ROWS: Final = msgspec.json.Decoder(list[str])
_NAMES: Final = msgspec.json.Decoder(tuple[str, str, str])
