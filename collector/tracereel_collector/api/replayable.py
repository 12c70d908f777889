"""`GET /v1/traces/{trace_id}/replayable`: whether a run can be re-executed, and what came of it."""

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.replay import check_trace_id

router = Surface(scope=Scope.READ)


@router.get("/v1/traces/{trace_id}/replayable", summary="Ask whether a run can be replayed")
async def get_replayable(request: Request, trace_id: str) -> Response:
    """`yes`, `partly` or `no`, the reasons, the command; replays with their divergences; branches."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    check_trace_id(trace_id)
    document = await parts.queries.run(lambda: parts.replayable.document(tenant, trace_id))
    return Response(document, media_type="application/json")
