"""`/api/…`: Jaeger's legacy query API, for its UI, Grafana and scripts."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError, UnknownResourceError
from tracereel_collector.http.dependencies import Parts, caller_of, parts_of, query
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.ingest.otlp_json import request_from_json
from tracereel_collector.ingest.otlp_schema import TRACES
from tracereel_collector.query.jaeger import parameters
from tracereel_collector.query.jaeger.legacy import envelope, failure, shown, trace_document
from tracereel_collector.query.jaeger.parameters import check_id
from tracereel_collector.query.jaeger.reader import MAX_TRACES, Jaeger, within
from tracereel_collector.query.jaeger.rows import traces_of

MAX_SHOWN: Final = 100_000
"""Most JSON values of a document to convert."""
router = ScopedRouter()


def described(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Describe parameters for OpenAPI; handlers read them raw to return Jaeger's error texts."""
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "schema": {"type": "string"},
            }
            for name in names
        ]
    }


async def answered(
    request: Request, ask: Callable[[Jaeger, str], dict[str, Any]], *, status: int = 200
) -> Response:
    """Return the document that `ask` reads as JSON, indented with `prettyPrint`."""
    pretty = request.query_params.get("prettyPrint", "") not in ("", "false")

    def work(parts: Parts, tenant: str) -> bytes:
        body = msgspec.json.encode(ask(parts.jaeger, tenant))
        return msgspec.json.format(body, indent=4) if pretty else body

    body = await query(request, work)
    return Response(body, status_code=status, media_type="application/json")


@router.get("/api/services", scope=KeyScope.READ, summary="Jaeger: list services")
async def get_services(request: Request) -> Response:
    """Return service names in `data`, sorted."""

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        names = jaeger.services(tenant)
        return envelope(names, total=len(names))

    return await answered(request, ask)


@router.get(
    "/api/services/{service:path}/operations",
    scope=KeyScope.READ,
    summary="Jaeger: list a service's operations",
)
async def get_operations_of(request: Request, service: str) -> Response:
    """Return operation names in `data`; the service name may contain slashes or be encoded twice."""

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        found = jaeger.operations(tenant, *{service, unquote(service)})
        names = list(dict.fromkeys(name for name, _ in found))
        return envelope(names, total=len(names))

    return await answered(request, ask)


@router.get(
    "/api/operations",
    scope=KeyScope.READ,
    summary="Jaeger: list operations with their kinds",
    openapi_extra=described("service", "spanKind"),
)
async def get_operations(request: Request) -> Response:
    """Return operations in `data`, each with `name` and `spanKind`."""
    service = request.query_params.get("service", "")
    kind = request.query_params.get("spanKind", "")
    if not service:
        raise BadRequestError("parameter 'service' is required")

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        found = jaeger.operations(tenant, service, kind=kind)
        data = [{"name": name, "spanKind": each} for name, each in found]
        return envelope(data, total=len(data))

    return await answered(request, ask)


@router.get(
    "/api/traces",
    scope=KeyScope.READ,
    summary="Jaeger: search traces",
    openapi_extra=described(
        *("service", "operation", "start", "end", "limit", "minDuration", "maxDuration"),
        *("tag", "tags", "traceID", "raw", "prettyPrint"),
    ),
)
async def find_traces(request: Request) -> Response:
    """Return traces with a span that meets all conditions, newest first; `[]` if none match.

    Times are microseconds, durations `1.5s` or `100ms`, `tag` is `key:value`, `tags` a JSON object.
    """
    given = request.query_params
    raw = parameters.optional(given, "raw", parameters.boolean, False)
    ids = [check_id(each) for each in given.getlist("traceID")[:MAX_TRACES]]
    search = parameters.legacy_search(
        given,
        tag=given.getlist("tag"),
        tags=given.getlist("tags"),
        by_id=bool(ids),
        now=parts_of(request).jaeger.now_unix_nano(),
    )

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        if ids:
            return _by_ids(jaeger, tenant, ids, raw=raw)
        found = jaeger.traces(tenant, jaeger.find(tenant, search))
        return envelope([trace_document(each, raw=raw) for each in found])

    return await answered(request, ask)


def _by_ids(jaeger: Jaeger, tenant: str, ids: list[str], *, raw: bool) -> dict[str, Any]:
    """Return the traces found and an error for each missing one."""
    asked = {each: jaeger.resolve(tenant, each) for each in ids}
    found = jaeger.traces(tenant, [one for many in asked.values() for one in many])
    present = {trace.trace_id for trace in found}
    missing = [
        {"msg": "trace not found", "traceID": shown(many[0]) if many else each}
        for each, many in asked.items()
        if present.isdisjoint(many)
    ]
    return envelope([trace_document(each, raw=raw) for each in found], errors=missing or None)


@router.get(
    "/api/traces/{trace_id:path}",
    scope=KeyScope.READ,
    summary="Jaeger: get a trace",
    openapi_extra=described("start", "end", "raw", "prettyPrint"),
)
async def get_trace(request: Request, trace_id: str) -> Response:
    """Return a trace by hexadecimal or base64 id, or by the `trace_id` of a run."""
    check_id(trace_id)
    given = request.query_params
    start = parameters.optional(given, "start", parameters.trace_time, None)
    end = parameters.optional(given, "end", parameters.trace_time, None)
    raw = parameters.optional(given, "raw", parameters.boolean, False)

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        found = jaeger.traces(tenant, jaeger.resolve(tenant, trace_id))
        shown_ones = [each for each in found if within(each, start, end)]
        if not shown_ones:
            raise UnknownResourceError("trace not found")
        return envelope([trace_document(each, raw=raw) for each in shown_ones])

    return await answered(request, ask)


@router.get(
    "/api/dependencies",
    scope=KeyScope.READ,
    summary="Jaeger: which service calls which",
    openapi_extra=described("endTs", "lookback", "service"),
)
async def get_dependencies(request: Request) -> Response:
    """Return `parent`, `child` and `callCount` in `data`; `endTs` and `lookback` are milliseconds."""
    given = request.query_params
    now = parts_of(request).jaeger.now_unix_nano() // 1_000_000
    end = parameters.optional(given, "endTs", parameters.integer, now)
    back = parameters.optional(
        given, "lookback", parameters.integer, parameters.DEPENDENCY_LOOKBACK_MILLI
    )
    service = given.get("service")

    def ask(jaeger: Jaeger, tenant: str) -> dict[str, Any]:
        found = jaeger.dependencies(tenant, start=(end - back) * 1_000_000, end=end * 1_000_000)
        return envelope(
            [
                {"parent": parent, "child": child, "callCount": calls}
                for parent, child, calls in found
                if not service or service in (parent, child)
            ]
        )

    return await answered(request, ask)


@router.post(
    "/api/transform",
    scope=KeyScope.READ,
    summary="Jaeger: show an OTLP document",
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}
    },
)
async def transform(request: Request) -> Response:
    """Convert OTLP JSON to Jaeger's legacy JSON; nothing is stored."""
    async with parts_of(request).bodies.read(
        request.stream(), request.headers, tenant=caller_of(request).tenant
    ) as data:

        def ask(_jaeger: Jaeger, _tenant: str) -> dict[str, Any]:
            found = traces_of(request_from_json(TRACES, data, max_objects=MAX_SHOWN)[0])
            return envelope([trace_document(each, raw=True) for each in found])

        return await answered(request, ask)


# Not in the OpenAPI document, because it always returns 501.
@router.get("/api/metrics/{name}", scope=KeyScope.READ, include_in_schema=False)
async def get_metrics(request: Request, name: str) -> Response:
    """Return 501, as Jaeger does without metrics storage."""
    message = f"metrics of services ({name[:40]}) are not offered here; see /metrics"
    return await answered(request, lambda *_: failure(501, message), status=501)
