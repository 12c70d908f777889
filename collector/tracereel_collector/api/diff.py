"""`GET /v1/traces/{a}/diff/{b}`: what is different in another run."""

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.replay import check_trace_id

router = Surface(scope=Scope.READ)


@router.get("/v1/traces/{a}/diff/{b}", summary="Compare two runs")
async def get_diff(
    request: Request, a: str, b: str, *, everything: bool = False, linked: bool = True
) -> Response:
    """Steps added, removed and changed in `b`, with `first_difference`; `everything`: the same ones too."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    check_trace_id(a)
    check_trace_id(b)
    document = await parts.queries.run(
        lambda: parts.comparison.document(tenant, a, b, everything=everything, linked=linked)
    )
    return Response(document, media_type="application/json")
