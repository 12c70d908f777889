"""`/api/…`: Jaeger's legacy query API, for its UI, Grafana and scripts."""

import inspect
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError, UnknownResourceError
from tracereel_collector.http.dependencies import Parts, body_of, query_json
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
router = ScopedRouter(KeyScope.READ)
Ask = Callable[[Jaeger, str, Request], dict[str, Any]]
"""Reads the document that a request of a tenant asks for; runs in a query thread."""


def answers(
    routes: ScopedRouter,
    path: str,
    summary: str,
    *parameters: str,
    required: tuple[str, ...] = (),
) -> Callable[[Ask], Ask]:
    """Declare a `GET` route; parameters are only named, since their errors have Jaeger's texts."""
    places = {
        **dict.fromkeys(re.findall(r"{(\w+)", path), "path"),
        **dict.fromkeys(parameters, "query"),
    }
    described = [
        {
            "name": name,
            "in": place,
            "required": place == "path" or name in required,
            "schema": {"type": "string"},
        }
        for name, place in places.items()
    ]

    def declare(ask: Ask) -> Ask:
        async def endpoint(request: Request) -> Response:
            return await answered(request, ask)

        routes.get(
            path,
            summary=summary,
            name=ask.__name__,
            description=inspect.getdoc(ask),
            openapi_extra={"parameters": described},
        )(endpoint)
        return ask

    return declare


async def answered(request: Request, ask: Ask) -> Response:
    """Return the document that `ask` reads as JSON, indented with `prettyPrint`."""
    pretty = request.query_params.get("prettyPrint", "") not in ("", "false")

    def work(parts: Parts, tenant: str) -> bytes:
        body = msgspec.json.encode(ask(parts.jaeger, tenant, request))
        return msgspec.json.format(body, indent=4) if pretty else body

    return await query_json(request, work)


@answers(router, "/api/services", "Jaeger: list services")
def get_services(jaeger: Jaeger, tenant: str, _: Request) -> dict[str, Any]:
    """Return service names in `data`, sorted."""
    names = jaeger.services(tenant)
    return envelope(names, total=len(names))


@answers(router, "/api/services/{service:path}/operations", "Jaeger: list a service's operations")
def get_operations_of(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
    """Return operation names in `data`; the service name may contain slashes or be encoded twice."""
    service = request.path_params["service"]
    found = jaeger.operations(tenant, *{service, unquote(service)})
    names = list(dict.fromkeys(name for name, _ in found))
    return envelope(names, total=len(names))


@answers(
    router, "/api/operations", "Jaeger: list operations with their kinds", "service", "spanKind"
)
def get_operations(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
    """Return operations in `data`, each with `name` and `spanKind`."""
    service = request.query_params.get("service", "")
    if not service:
        raise BadRequestError("parameter 'service' is required")
    found = jaeger.operations(tenant, service, kind=request.query_params.get("spanKind", ""))
    data = [{"name": name, "spanKind": each} for name, each in found]
    return envelope(data, total=len(data))


@answers(
    router,
    "/api/traces",
    "Jaeger: search traces",
    *("service", "operation", "start", "end", "limit", "minDuration", "maxDuration"),
    *("tag", "tags", "traceID", "raw", "prettyPrint"),
)
def find_traces(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
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
        now=jaeger.now_unix_nano(),
    )
    if ids:
        return _by_ids(jaeger, tenant, ids, raw=raw)
    found = jaeger.traces(tenant, jaeger.find(tenant, search))
    return envelope([trace_document(each, raw=raw) for each in found])


def _by_ids(jaeger: Jaeger, tenant: str, ids: list[str], *, raw: bool) -> dict[str, Any]:
    """Return the traces found and an error for each missing one."""
    resolved = {each: jaeger.resolve(tenant, each) for each in ids}
    found = jaeger.traces(tenant, [one for many in resolved.values() for one in many])
    present = {trace.trace_id for trace in found}
    missing = [
        {"msg": "trace not found", "traceID": shown(many[0]) if many else each}
        for each, many in resolved.items()
        if present.isdisjoint(many)
    ]
    return envelope([trace_document(each, raw=raw) for each in found], errors=missing or None)


@answers(
    router,
    "/api/traces/{trace_id:path}",
    "Jaeger: get a trace",
    *("start", "end", "raw", "prettyPrint"),
)
def get_trace(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
    """Return a trace by hexadecimal or base64 id, or by the `trace_id` of a run."""
    trace_id, given = check_id(request.path_params["trace_id"]), request.query_params
    start = parameters.optional(given, "start", parameters.trace_time, None)
    end = parameters.optional(given, "end", parameters.trace_time, None)
    raw = parameters.optional(given, "raw", parameters.boolean, False)
    found = jaeger.traces(tenant, jaeger.resolve(tenant, trace_id))
    documents = [trace_document(each, raw=raw) for each in found if within(each, start, end)]
    if not documents:
        raise UnknownResourceError("trace not found")
    return envelope(documents)


@answers(
    router,
    "/api/dependencies",
    "Jaeger: which service calls which",
    *("endTs", "lookback", "service"),
)
def get_dependencies(jaeger: Jaeger, tenant: str, request: Request) -> dict[str, Any]:
    """Return `parent`, `child` and `callCount` in `data`; `endTs` and `lookback` are milliseconds."""
    given, now = request.query_params, jaeger.now_unix_nano() // 1_000_000
    end = parameters.optional(given, "endTs", parameters.integer, now)
    back = parameters.optional(
        given, "lookback", parameters.integer, parameters.DEPENDENCY_LOOKBACK_MILLI
    )
    service = given.get("service")
    found = jaeger.dependencies(tenant, start=(end - back) * 1_000_000, end=end * 1_000_000)
    return envelope(
        [
            {"parent": parent, "child": child, "callCount": calls}
            for parent, child, calls in found
            if not service or service in (parent, child)
        ]
    )


@router.post(
    "/api/transform",
    summary="Jaeger: show an OTLP document",
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}
    },
)
async def transform(request: Request) -> Response:
    """Convert OTLP JSON to Jaeger's legacy JSON; nothing is stored."""
    async with body_of(request) as data:

        def ask(*_: object) -> dict[str, Any]:
            found = traces_of(request_from_json(TRACES, data, max_objects=MAX_SHOWN)[0])
            return envelope([trace_document(each, raw=True) for each in found])

        return await answered(request, ask)


# Not in the OpenAPI document, because it always returns 501.
@router.get("/api/metrics/{name}", include_in_schema=False)
async def get_metrics(name: str) -> Response:
    """Return 501, as Jaeger does without metrics storage."""
    message = f"metrics of services ({name[:40]}) are not offered here; see /metrics"
    return JSONResponse(failure(501, message), status_code=501)
