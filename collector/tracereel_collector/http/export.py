"""`GET /v1/export`: download of events, spans or scores."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import caller_of, parts_of, query
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.http.streams import HeldStream
from tracereel_collector.query.export import LAST_NANO, ExportPiece, ExportSelection
from tracereel_collector.query.window import parse_window

router = ScopedRouter(KeyScope.READ)


@router.get("/v1/export", summary="Export events, spans or scores")
async def get_export(
    request: Request,
    table: Literal["events", "spans", "scores"] = "events",
    format: Literal["ndjson", "parquet"] = "ndjson",  # noqa: A002 - part of the API
    trace_id: str = "",
    agent: str = "",
    since: Annotated[str, Query(max_length=64)] = "",
    until: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Stream the rows as NDJSON or Parquet; `x-total-count` is their number at the start.

    `x-estimated-bytes` is the expected size, extrapolated from the first rows.
    """
    parts, tenant = parts_of(request), caller_of(request).tenant
    window = parse_window(
        since or None, until or None, now=time.time_ns(), names=("since", "until")
    )
    wanted = ExportSelection(
        table=table,
        trace_id=trace_id,
        agent=agent,
        since_unix_nano=window.start or 0,
        until_unix_nano=LAST_NANO if window.end is None else window.end,
    )
    make = parts.export.parquet if format == "parquet" else parts.export.ndjson
    media = "application/vnd.apache.parquet" if format == "parquet" else "application/x-ndjson"
    async with AsyncExitStack() as held:
        held.enter_context(parts.export.slots.holding(tenant))
        made = make(tenant, wanted)
        rows = await query(request, lambda parts, tenant: parts.export.count(tenant, wanted))
        # Read the first piece now, so that a read error is an error response, not a broken stream.
        first = await query(request, lambda *_: next(made, ExportPiece(b"", 0)))
        return HeldStream(
            _chunks(request, first, made),
            held=held.pop_all(),
            media_type=media,
            headers={
                "X-Total-Count": str(rows),
                "X-Estimated-Bytes": str(_estimated(first, rows)),
                "Content-Disposition": f'attachment; filename="{table}.{format}"',
            },
        )


def _estimated(first: ExportPiece, rows: int) -> int:
    return len(first.data) * max(rows, first.rows) // (first.rows or 1)


async def _chunks(
    request: Request, first: ExportPiece, made: Iterator[ExportPiece]
) -> AsyncIterator[bytes]:
    """Yield the pieces; each is read after the previous one was sent."""
    yield first.data
    while (piece := await query(request, lambda *_: next(made, None))) is not None:
        yield piece.data
