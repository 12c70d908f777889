"""`GET /v1/replay/{trace_id}`: a run, told in order."""

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.replay import check_trace_id

router = Surface(scope=Scope.READ)


@router.get("/v1/replay/{trace_id}", summary="Replay a run")
async def get_replay(request: Request, trace_id: str) -> Response:
    """`timeline` holds every event once, chronological and causal; `summary` what it amounts to."""
    parts = parts_of(request)
    caller = caller_of(request)
    check_trace_id(trace_id)
    document = await parts.queries.run(lambda: parts.replay.document(caller.tenant, trace_id))
    return Response(document, media_type="application/json")
