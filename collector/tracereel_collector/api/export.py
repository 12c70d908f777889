"""`GET /v1/export`: everything, or a part of it, to take away."""

import time
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import Response, StreamingResponse

from tracereel_collector.api.parts import Parts, parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.errors import ThrottledError
from tracereel_collector.query.export import LAST_NANO, Piece, Wanted
from tracereel_collector.query.window import parse_window

router = Surface(scope=Scope.READ)
AT_ONCE = 2
"""Exports that one process makes."""


@router.get("/v1/export", summary="Export events, spans or scores")
async def get_export(
    request: Request,
    table: Literal["events", "spans", "scores"] = "events",
    format: Literal["ndjson", "parquet"] = "ndjson",  # noqa: A002 - the name people look for
    trace_id: str = "",
    agent: str = "",
    since: Annotated[str, Query(max_length=64)] = "",
    until: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Streamed; `x-total-count` says how many rows there were when it began.

    `x-estimated-bytes` is how long it will be if all rows are like the first ones.
    """
    parts, tenant = parts_of(request), caller_of(request).tenant
    window = parse_window(
        since or None, until or None, now=time.time_ns(), names=("since", "until")
    )
    wanted = Wanted(
        table=table,
        trace_id=trace_id,
        agent=agent,
        since_unix_nano=window.start or 0,
        until_unix_nano=LAST_NANO if window.end is None else window.end,
    )
    if len(parts.export.running) >= AT_ONCE:
        raise ThrottledError(f"{AT_ONCE} exports are under way already")
    make = parts.export.parquet if format == "parquet" else parts.export.ndjson
    media = "application/vnd.apache.parquet" if format == "parquet" else "application/x-ndjson"
    made = make(tenant, wanted)
    parts.export.running.add(made)
    rows = await parts.queries.run(lambda: parts.export.count(tenant, wanted))
    # What cannot be read is an error of its own, not an answer that breaks off.
    first = await parts.queries.run(lambda: next(made, Piece(b"", 0)))
    return StreamingResponse(
        _chunks(parts, first, made),
        media_type=media,
        headers={
            "X-Total-Count": str(rows),
            "X-Estimated-Bytes": str(_estimated(first, rows)),
            "Content-Disposition": f'attachment; filename="{table}.{format}"',
        },
    )


def _estimated(first: Piece, rows: int) -> int:
    return len(first.data) * max(rows, first.rows) // (first.rows or 1)


async def _chunks(parts: Parts, first: Piece, made: Iterator[Piece]) -> AsyncIterator[bytes]:
    """One slice after another, each asked for when the one before is on its way."""
    try:
        yield first.data
        while (piece := await parts.queries.run(lambda: next(made, None))) is not None:
            yield piece.data
    finally:
        parts.export.running.discard(made)
