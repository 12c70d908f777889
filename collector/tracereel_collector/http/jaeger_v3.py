"""`/api/v3/…`: Jaeger's stable query API, used by its UI."""

from typing import Any

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError, UnknownResourceError
from tracereel_collector.http.jaeger import answered, described
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.query.jaeger.parameters import V3Parameters, boolean, check_id
from tracereel_collector.query.jaeger.reader import Jaeger, within
from tracereel_collector.query.jaeger.rows import JaegerTrace
from tracereel_collector.query.jaeger.v3 import summary, traces_document

router = ScopedRouter()
_TIMES = ("query.startTimeMin", "query.startTimeMax")
_SEARCH = described(
    *("query.serviceName", "query.operationName", "query.attributes", *_TIMES),
    *("query.durationMin", "query.durationMax", "query.searchDepth", "query.rawTraces"),
    required=_TIMES,
)


@router.get("/api/v3/services", scope=KeyScope.READ, summary="Jaeger v3: list services")
async def get_services(request: Request) -> Response:
    """Return service names in `services`, sorted."""
    return await answered(request, lambda jaeger, tenant: {"services": jaeger.services(tenant)})


@router.get(
    "/api/v3/operations",
    scope=KeyScope.READ,
    summary="Jaeger v3: list operations",
    openapi_extra=described("service", "spanKind"),
)
async def get_operations(request: Request) -> Response:
    """Return operations with `name` and `spanKind`; spans without a kind are `internal`."""
    given = V3Parameters(request.query_params)
    service, kind = given.text("service"), given.text("spanKind")

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        found = jaeger.operations(tenant, service, kind=kind)
        unique = dict.fromkeys((name, each or "internal") for name, each in found)
        return {"operations": [{"name": name, "spanKind": each} for name, each in unique]}

    return await answered(request, ask)


@router.get(
    "/api/v3/traces/{trace_id:path}",
    scope=KeyScope.READ,
    summary="Jaeger v3: get a trace",
    openapi_extra=described("startTime", "endTime", "rawTraces"),
)
async def get_trace(request: Request, trace_id: str) -> Response:
    """Return a trace as OTLP JSON in `result`."""
    check_id(trace_id)
    given = V3Parameters(request.query_params)
    start, end = given.window()
    given.read(boolean, False, "rawTraces")

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        found = jaeger.traces(tenant, jaeger.resolve(tenant, trace_id))
        return _document([each for each in found if within(each, start, end)])

    return await answered(request, ask)


@router.get(
    "/api/v3/traces", scope=KeyScope.READ, summary="Jaeger v3: search traces", openapi_extra=_SEARCH
)
async def find_traces(request: Request) -> Response:
    """Return traces with a span that meets all conditions; 404 if none match, like Jaeger.

    Times are RFC 3339, durations `1.5s`, `query.attributes` a JSON object with string values.
    """
    given = V3Parameters(request.query_params)
    search = given.search()
    given.read(boolean, False, "query.rawTraces")
    return await answered(
        request,
        lambda jaeger, tenant: _document(jaeger.traces(tenant, jaeger.find(tenant, search))),
    )


@router.get(
    "/api/v3/trace-summaries",
    scope=KeyScope.READ,
    summary="Jaeger v3: list traces in short",
    openapi_extra=_SEARCH,
)
async def find_summaries(request: Request) -> Response:
    """Return a summary of each trace that `/api/v3/traces` would return."""
    search = V3Parameters(request.query_params).search()

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        outlines = jaeger.outlines(tenant, jaeger.find(tenant, search))
        return {"summaries": [summary(spans) for spans in outlines]}

    return await answered(request, ask)


@router.get(
    "/api/v3/dependencies",
    scope=KeyScope.READ,
    summary="Jaeger v3: which service calls which",
    openapi_extra=described("startTime", "endTime", required=("startTime", "endTime")),
)
async def get_dependencies(request: Request) -> Response:
    """Return `parent`, `child` and `callCount` in `dependencies`."""
    start, end = V3Parameters(request.query_params).window()
    if start is None or end is None:
        raise BadRequestError("startTime and endTime are required")

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        # Protobuf JSON encodes 64-bit integers as strings.
        return {
            "dependencies": [
                {"parent": parent, "child": child, "callCount": str(calls)}
                for parent, child, calls in jaeger.dependencies(tenant, start=start, end=end)
            ]
        }

    return await answered(request, ask)


def _document(found: list[JaegerTrace]) -> dict[str, Any]:
    if not found:
        raise UnknownResourceError("No traces found")
    return traces_document(found)
