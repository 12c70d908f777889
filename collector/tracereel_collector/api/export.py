"""`GET /v1/export`: everything, or a part of it, to take away."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import Response, StreamingResponse

from tracereel_collector.api.parts import Parts, parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.errors import BadRequestError, ThrottledError
from tracereel_collector.query.export import LAST_NANO, Wanted

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
    """Streamed; `x-total-count` says how many rows there were when it began."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    wanted = Wanted(
        table=table,
        trace_id=trace_id,
        agent=agent,
        since_unix_nano=_nano("since", since) if since else 0,
        until_unix_nano=_nano("until", until) if until else LAST_NANO,
    )
    if len(parts.export.running) >= AT_ONCE:
        raise ThrottledError(f"{AT_ONCE} exports are under way already")
    rows = await parts.queries.run(lambda: parts.export.count(tenant, wanted))
    make = parts.export.parquet if format == "parquet" else parts.export.ndjson
    media = "application/vnd.apache.parquet" if format == "parquet" else "application/x-ndjson"
    return StreamingResponse(
        _chunks(parts, make(tenant, wanted)),
        media_type=media,
        headers={
            "X-Total-Count": str(rows),
            "Content-Disposition": f'attachment; filename="{table}.{format}"',
        },
    )


async def _chunks(parts: Parts, made: Iterator[bytes]) -> AsyncIterator[bytes]:
    """One slice after another, each asked for when the one before is on its way."""
    parts.export.running.add(made)
    try:
        while (chunk := await parts.queries.run(lambda: next(made, None))) is not None:
            yield chunk
    finally:
        parts.export.running.discard(made)


def _nano(name: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise BadRequestError(
            f"{name} is {text[:60]!r}; expected a date or time such as 2026-01-31T12:00:00Z"
        ) from error
    return max(0, min(LAST_NANO, int(seconds * 1_000_000) * 1_000))
