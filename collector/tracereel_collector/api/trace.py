"""`GET /v1/traces/{trace_id}`: a run as a tree."""

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.replay import check_trace_id

router = Surface(scope=Scope.READ)


@router.get("/v1/traces/{trace_id}", summary="Read a run as a tree")
async def get_trace(request: Request, trace_id: str, *, linked: bool = True) -> Response:
    """`steps` in order, each behind its parent; runs that this one started are among them."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    check_trace_id(trace_id)
    document = await parts.queries.run(
        lambda: parts.traces.document(tenant, trace_id, linked=linked)
    )
    return Response(document, media_type="application/json")
