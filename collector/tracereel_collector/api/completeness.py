"""`GET /v1/traces/{trace_id}/completeness`: whether all of a run is stored, and what is missing."""

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.replay import check_trace_id

router = Surface(scope=Scope.READ)


@router.get("/v1/traces/{trace_id}/completeness", summary="Read whether a run is complete")
async def get_completeness(request: Request, trace_id: str, *, linked: bool = True) -> Response:
    """Emitters, the numbers seen of each, gaps, duplicates, wrong clocks, and what is in the queue."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    check_trace_id(trace_id)

    def work() -> bytes:
        # The queue first: what is delivered in between is counted in both, never in neither.
        waiting = parts.queue.events_waiting(tenant=tenant, trace_id=trace_id)
        return parts.completeness.document(tenant, trace_id, waiting, linked=linked)

    return Response(await parts.queries.run(work), media_type="application/json")
