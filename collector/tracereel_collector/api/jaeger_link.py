"""`GET /v1/traces/{trace_id}/jaeger`: leads to a run in the Jaeger that the operator has named."""

from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface
from tracereel_collector.auth import Scope
from tracereel_collector.query.replay import check_trace_id

router = Surface(scope=Scope.READ)


@router.get("/v1/traces/{trace_id}/jaeger", summary="Open a run in Jaeger", status_code=307)
async def open_in_jaeger(request: Request, trace_id: str) -> RedirectResponse:
    """To `TRACEREEL_JAEGER_URL`; where none is set, to the trace as Jaeger's API has it."""
    check_trace_id(trace_id)
    ui = parts_of(request).jaeger_url.rstrip("/")
    name = quote(trace_id, safe="")
    return RedirectResponse(f"{ui}/trace/{name}" if ui else f"/api/traces/{name}")
