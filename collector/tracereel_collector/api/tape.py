"""`GET /v1/traces/{trace_id}/tape`: what a re-execution of a run needs."""

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.replay import check_trace_id

router = Surface(scope=Scope.READ)


@router.get("/v1/traces/{trace_id}/tape", summary="Fetch the tape of a run")
async def get_tape(request: Request, trace_id: str) -> Response:
    """The recorded calls of a run as NDJSON, one part per line; the SDK plays them."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    check_trace_id(trace_id)
    lines = await parts.queries.run(lambda: parts.tapes.lines(tenant, trace_id))
    return Response(lines, media_type="application/x-ndjson")
