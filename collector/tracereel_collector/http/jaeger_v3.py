"""`/api/v3/…`: Jaeger's stable query API, used by its UI."""

from typing import Any

from fastapi import Request

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError, UnknownResourceError
from tracereel_collector.http.jaeger import answers
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.query.jaeger.parameters import V3Parameters, boolean, check_id
from tracereel_collector.query.jaeger.reader import Jaeger, within
from tracereel_collector.query.jaeger.rows import JaegerTrace
from tracereel_collector.query.jaeger.v3 import summary, traces_document

router = ScopedRouter(KeyScope.READ)
_TIMES = ("query.startTimeMin", "query.startTimeMax")
_SEARCH = (
    *("query.serviceName", "query.operationName", "query.attributes", *_TIMES),
    *("query.durationMin", "query.durationMax", "query.searchDepth", "query.rawTraces"),
)


@answers(router, "/api/v3/services", "Jaeger v3: list services")
def get_services(jaeger: Jaeger, tenant: str, _: Request) -> dict[str, Any]:
    """Return service names in `services`, sorted."""
    return {"services": jaeger.services(tenant)}


@answers(router, "/api/v3/operations", "Jaeger v3: list operations", "service", "spanKind")
def get_operations(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
    """Return operations with `name` and `spanKind`; spans without a kind are `internal`."""
    given = V3Parameters(request.query_params)
    found = jaeger.operations(tenant, given.text("service"), kind=given.text("spanKind"))
    unique = dict.fromkeys((name, each or "internal") for name, each in found)
    return {"operations": [{"name": name, "spanKind": each} for name, each in unique]}


@answers(
    router,
    "/api/v3/traces/{trace_id:path}",
    "Jaeger v3: get a trace",
    *("startTime", "endTime", "rawTraces"),
)
def get_trace(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
    """Return a trace as OTLP JSON in `result`."""
    trace_id = check_id(request.path_params["trace_id"])
    given = V3Parameters(request.query_params)
    start, end = given.window()
    given.read(boolean, False, "rawTraces")
    found = jaeger.traces(tenant, jaeger.resolve(tenant, trace_id))
    return _document([each for each in found if within(each, start, end)])


@answers(router, "/api/v3/traces", "Jaeger v3: search traces", *_SEARCH, required=_TIMES)
def find_traces(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
    """Return traces with a span that meets all conditions; 404 if none match, like Jaeger.

    Times are RFC 3339, durations `1.5s`, `query.attributes` a JSON object with string values.
    """
    given = V3Parameters(request.query_params)
    search = given.search()
    given.read(boolean, False, "query.rawTraces")
    return _document(jaeger.traces(tenant, jaeger.find(tenant, search)))


@answers(
    router,
    "/api/v3/trace-summaries",
    "Jaeger v3: list traces in short",
    *_SEARCH,
    required=_TIMES,
)
def find_summaries(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
    """Return a summary of each trace that `/api/v3/traces` would return."""
    search = V3Parameters(request.query_params).search()
    outlines = jaeger.outlines(tenant, jaeger.find(tenant, search))
    return {"summaries": [summary(spans) for spans in outlines]}


@answers(
    router,
    "/api/v3/dependencies",
    "Jaeger v3: which service calls which",
    *("startTime", "endTime"),
    required=("startTime", "endTime"),
)
def get_dependencies(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
    """Return `parent`, `child` and `callCount` in `dependencies`."""
    start, end = V3Parameters(request.query_params).window()
    if start is None or end is None:
        raise BadRequestError("startTime and endTime are required")
    # Protobuf JSON encodes 64-bit integers as strings.
    return {
        "dependencies": [
            {"parent": parent, "child": child, "callCount": str(calls)}
            for parent, child, calls in jaeger.dependencies(tenant, start=start, end=end)
        ]
    }


def _document(found: list[JaegerTrace]) -> dict[str, Any]:
    if not found:
        raise UnknownResourceError("No traces found")
    return traces_document(found)
