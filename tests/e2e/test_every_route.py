"""Access rules on every registered route: keys, scopes, other sites, sessions."""

import json
import time
import uuid
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.support.collector import CollectorProcess, http
from tests.support.contract import example
from tests.support.keys import make_key
from tests.support.waiting import wait_until
from tracereel_collector.http import build, page
from tracereel_collector.http.scoped_router import ScopedRoute, ScopedRouter

ORIGIN = "https://app.example"
STATIC_KEY = "a-static-key-of-these-tests"
PAGE = {"/", "/docs", "/web/{path}", "/openapi.json"}
"""Routes that links on other sites may open; they contain no recorded data."""
OPERATIONS = {"/healthz", "/readyz", "/readyz/query", "/metrics"}
"""Routes for probes and Prometheus; they contain no tenant data."""
PARAMETERS = {
    **dict.fromkeys(("trace_id", "a", "b", "step_id", "session_id", "user_id"), "none"),
    "fleet_id": "none",
    **dict.fromkeys(("name", "service"), "none"),
    "entry_id": "999",
    "key_id": "0123456789ab",
    "path": next(each for each in page.SERVED if each.endswith("/app.js")),
}
OTHER_SITES = ("cross-site", "same-site", "nonsense")


def registered():
    """Return method, path template and scope of every route."""
    found = [
        (method, route.path_format, route.scope.value)
        for route in build.ROUTES
        for method in route.methods
    ]
    return [*found, ("GET", "/openapi.json", "public")]


ROUTES = registered()
GUARDED = [each for each in ROUTES if each[2] != "public"]


def status(collector, method, path, **headers):
    """Return the status of one request; the body is not read, because it may be endless."""
    address = urlsplit(collector.url)
    connection = HTTPConnection(address.hostname, address.port, timeout=30)
    body = b"{}" if method == "POST" else None
    try:
        connection.request(method, path.format_map(PARAMETERS), body, headers_of(headers))
        return connection.getresponse().status
    finally:
        connection.close()


def headers_of(names):
    return {name.replace("_", "-"): value for name, value in names.items()}


def log_in(collector, key):
    """Return the `Cookie` header of a new session."""
    given = http("POST", f"{collector.url}/v1/login", b"", {"x-api-key": key})
    assert given.status == 200, given.body
    return given.headers["set-cookie"].partition(";")[0]


@pytest.fixture(scope="module")
def open_collector(tmp_path_factory):
    """Return a collector without keys on loopback, as `tracereel serve` starts it."""
    running = CollectorProcess(tmp_path_factory.mktemp("open")).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """Return a collector with keys of every login scope set, a static key and an origin."""
    folder = tmp_path_factory.mktemp("keyed")
    keys = {
        scopes: make_key(folder, tenant="acme", scope=scopes)["key"]
        for scopes in ("read", "read,write", "read,admin", "read,write,admin")
    }
    running = CollectorProcess(
        folder,
        environ={
            "TRACEREEL_CORS_ORIGINS": ORIGIN,
            "TRACEREEL_API_KEYS": f"acme:{STATIC_KEY}",
        },
    ).start()
    running.keys = {**keys, "static": STATIC_KEY}
    yield running
    running.stop()


def test_every_registered_route_has_a_scope():
    assert all(isinstance(route, ScopedRoute) for route in build.ROUTES)
    public = {path for _, path, scope in ROUTES if scope == "public"}
    assert public == PAGE | OPERATIONS | {"/v1/logout"}


def test_a_route_cannot_be_declared_without_a_scope():
    with pytest.raises(TypeError, match="scope"):
        ScopedRouter().get("/v1/anything")


def test_every_route_that_is_not_public_needs_a_key(keyed):
    for method, path, _ in GUARDED:
        assert status(keyed, method, path) == 401, f"{method} {path}"


@pytest.mark.parametrize("site", OTHER_SITES)
def test_requests_of_other_sites_are_refused_on_every_route_but_the_page(
    open_collector, keyed, site
):
    """An image tag sends no `Origin`, so it cannot be attributed to a configured one."""
    key = keyed.keys["read,write,admin"]
    for method, path, _ in ROUTES:
        expected = 200 if path in PAGE | OPERATIONS and method == "GET" else 403
        for collector, headers in ((open_collector, {}), (keyed, {"x-api-key": key})):
            found = status(collector, method, path, sec_fetch_site=site, **headers)
            assert found == expected, f"{method} {path}"


def test_a_configured_origin_may_use_every_route(keyed):
    key = keyed.keys["read,write,admin"]
    for method, path, scope in GUARDED:
        headers = {"x-api-key": key, "sec-fetch-site": "cross-site"}
        assert status(keyed, method, path, origin=ORIGIN, **headers) not in (401, 403), path
        other = status(keyed, method, path, origin="https://other.example", **headers)
        assert other == 403, f"{method} {path} {scope}"


def test_admin_routes_without_keys_need_the_flag(open_collector):
    for method, path, scope in GUARDED:
        found = status(open_collector, method, path)
        assert (found == 403) is (scope == "admin"), f"{method} {path}: {found}"
    refused = http("DELETE", f"{open_collector.url}/v1/retention")
    assert "--local-admin" in refused.json()["error"]["hint"]


def test_the_flag_allows_admin_routes_except_those_of_keys(tmp_path):
    running = CollectorProcess(tmp_path, arguments=("--local-admin",)).start()
    try:
        for method, path, scope in GUARDED:
            if scope == "admin":
                is_refused = status(running, method, path) == 403
                assert is_refused is path.startswith("/v1/keys"), f"{method} {path}"
    finally:
        running.stop()


@pytest.mark.parametrize("scopes", ["read", "read,write", "read,admin", "static"])
def test_a_session_has_exactly_the_scopes_of_its_key(keyed, scopes):
    cookie = log_in(keyed, keyed.keys[scopes])
    granted = ["read", "write"] if scopes == "static" else scopes.split(",")
    for method, path, scope in GUARDED:
        found = status(keyed, method, path, cookie=cookie, sec_fetch_site="same-origin")
        assert found != 401, f"{method} {path}"
        assert (found == 403) is (scope not in granted), f"{method} {path}: {found}"


def test_session_is_ignored_on_cross_site_requests(keyed):
    cookie = log_in(keyed, keyed.keys["read,write,admin"])
    elsewhere = {"referer": "https://other.example/page"}
    for method, path, _ in GUARDED:
        asked = {"cookie": cookie, "sec-fetch-site": "cross-site"}
        assert status(keyed, method, path, **asked) == 403, f"{method} {path}"
        # A configured origin may send requests with its own key, never with the cookie.
        assert status(keyed, method, path, origin=ORIGIN, **asked) == 401, f"{method} {path}"
        assert status(keyed, method, path, cookie=cookie, **elsewhere) == 401, f"{method} {path}"


def test_public_routes_name_nothing_that_a_tenant_sent(keyed):
    """Every text of an event and of a span holds a marker; no public response does."""
    marker = f"marker-{uuid.uuid4().hex}"
    key = {"x-api-key": keyed.keys["read,write"]}
    names = ("agent_name", "user_id", "session_id", "service", "model", "pipeline_type", "error")
    event = {**example("agent.execution.completed"), **dict.fromkeys(names, marker)}
    event |= {"event_id": marker, "trace_id": marker}
    attributes = ("gen_ai.request.model", "gen_ai.response.model", "gen_ai.provider.name")
    span = {
        "traceId": uuid.uuid4().hex,
        "spanId": uuid.uuid4().hex[:16],
        "name": marker,
        "startTimeUnixNano": str(time.time_ns()),
        "endTimeUnixNano": str(time.time_ns()),
        "attributes": [
            *({"key": name, "value": {"stringValue": marker}} for name in attributes),
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "5"}},
        ],
    }
    spans = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    before = unpriced_calls(keyed)
    sent = keyed.post_events([event], headers=key)
    assert sent.status == 200, sent.body
    given = {**key, "Content-Type": "application/json"}
    sent = http("POST", f"{keyed.url}/v1/traces", json.dumps(spans).encode(), given)
    assert sent.status == 200, sent.body
    wait_until(lambda: unpriced_calls(keyed) > before, timeout=60, message="the span is not priced")

    for method, path, scope in ROUTES:
        if scope == "public" and method == "GET":
            shown = http(method, keyed.url + path.format_map(PARAMETERS))
            assert shown.status == 200
            assert marker not in shown.body.decode(), path


def unpriced_calls(collector):
    return collector.metric("tracereel_unpriced_model_calls")
