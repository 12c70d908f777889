"""Tenants and keys on a running collector: every route of its OpenAPI document."""

import json
import re
import subprocess
import sys
from urllib.parse import quote

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.support.collector import CollectorProcess, free_port, http
from tests.support.contract import example
from tests.support.keys import keys_command, make_key, secret_of
from tests.support.stored_fleets import fleet_events
from tests.support.waiting import wait_until
from tracereel._runtime.clock import otel_trace_id
from tracereel_collector.http.build import ROUTES

SECRET_TRACE = "trc-of-bravo-only"
SECRET_TEXT = "what-bravo-alone-knows"
ALL = "write,read,admin"
LISTS = {"/api/services/{service}/operations"}
"""Routes that return an empty list for an unknown name."""
BRAVOS = {
    **dict.fromkeys(("trace_id", "a", "b"), SECRET_TRACE),
    "session_id": "session-of-bravo",
    "user_id": "user-of-bravo",
    "name": "agent_of_bravo",
    "service": "service-of-bravo",
    "entry_id": "1",
    "step_id": "bravos",
    "fleet_id": "fleet_of_bravo",
}
"""Path parameters of bravo's resources; a new parameter needs a new line here."""
NOBODYS = {
    **dict.fromkeys(BRAVOS, "trc-of-nobody"),
    "entry_id": "999",
    "key_id": "0123456789ab",
}
NOT_MADE = {"/v1/quarantine/{entry_id}", "/v1/traces/{trace_id}/tape"}
"""Resources that bravo does not have: no quarantined record and no tape."""
UNDESCRIBED = {
    *("/", "/docs", "/web/{path}", "/ping", "/clickhouse/", "/api/metrics/{name}"),
    *("/v1/traces/", "/v1/logs/", "/v1/metrics/"),
}
"""The page, aliases of described routes, and unsupported routes that Jaeger's page requests."""
ATTACKS = (
    "') OR 1=1 -- ",
    "x` UNION ALL SELECT payload FROM agent_events FORMAT JSON SETTINGS readonly=0 /*",
    "{tenant:String}\\' OR url('http://127.0.0.1:1/', 'CSV')",
)
PUBLIC = {"/healthz", "/readyz", "/readyz/query", "/metrics", "/v1/logout"}


class Site:
    """Return a collector with keys of two tenants; bravo has a secret."""

    def __init__(self, folder):
        self.alpha = make_key(folder, tenant="alpha", scope=ALL)
        self.bravo = make_key(folder, tenant="bravo", scope=ALL)
        self.only = {
            scope: make_key(folder, tenant="alpha", scope=scope)["key"] for scope in ALL.split(",")
        }
        self.collector = CollectorProcess(
            folder,
            environ={"TRACEREEL_CORS_ORIGINS": "https://app.example"},
            grpc_port=free_port(),
        ).start()

    def ask(self, method, path, body=None, key=None, **headers):
        if key:
            headers["x-api-key"] = key
        return http(method, self.collector.url + path, body, headers)

    def send(self, key, query="", **fields):
        event = {**example("agent.execution.completed"), **fields}
        return self.ask("POST", f"/v1/events{query}", json.dumps(event).encode(), key)

    def operations(self):
        document = self.ask("GET", "/openapi.json").json()
        return [
            (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("site"))
    answer = made.send(
        made.bravo["key"],
        "?wait=stored&timeout=60",
        event_id="bravos",
        trace_id=SECRET_TRACE,
        reasoning=SECRET_TEXT,
        agent_name=BRAVOS["name"],
        **{name: BRAVOS[name] for name in ("session_id", "user_id", "service")},
    )
    assert answer.status == 200
    for event in fleet_events(BRAVOS["fleet_id"]):
        stored = made.ask("POST", "/v1/events", json.dumps(event).encode(), made.bravo["key"])
        assert stored.status == 200
    own = made.send(made.alpha["key"], "?wait=stored&timeout=60", event_id="alphas")
    assert own.status == 200
    yield made
    made.collector.stop()


def filled(path, site):
    """Return the path with bravo's identifiers, and the same with unknown ones."""
    bravos, nobodys = {**BRAVOS, "key_id": site.bravo["id"]}, NOBODYS
    if path.startswith("/api/"):
        bravos, nobodys = (
            {**values, "trace_id": otel_trace_id(values["trace_id"])}
            for values in (bravos, nobodys)
        )
    return path.format_map(bravos), path.format_map(nobodys)


def neutral(answer, *names):
    text = re.sub(r"\b(" + "|".join(map(re.escape, names)) + r")\b", "ID", answer.body.decode())
    return answer.status, text


def test_every_operation_names_its_scope(site):
    scopes = {
        f"{method} {path}": operation["x-tracereel-scope"]
        for method, path, operation in site.operations()
    }

    assert {path.split()[1] for path, scope in scopes.items() if scope == "public"} == PUBLIC
    assert set(scopes.values()) == {"public", "write", "read", "admin"}
    for method, path, operation in site.operations():
        assert bool(operation.get("security")) is (path not in PUBLIC), f"{method} {path}"


def test_without_a_key_every_operation_but_the_public_ones_is_401(site):
    for method, path, operation in site.operations():
        answer = site.ask(method, filled(path, site)[0])
        if operation["x-tracereel-scope"] == "public":
            assert answer.status == 200
            continue
        assert answer.status == 401, f"{method} {path}"
        assert answer.headers["www-authenticate"] == "Bearer"
        in_query = site.ask(method, f"{filled(path, site)[0]}?x-api-key={site.alpha['key']}")
        assert in_query.status == 401


def test_a_key_without_the_scope_is_403_everywhere(site):
    for method, path, operation in site.operations():
        wanted = operation["x-tracereel-scope"]
        for scope, key in site.only.items():
            if wanted not in ("public", scope):
                answer = site.ask(method, filled(path, site)[1], b"{}", key)
                assert answer.status == 403, f"{method} {path} with {scope}"


def refuses(path, operation, query):
    """Return whether a query has a parameter that our route does not read (test_parameters.py)."""
    if not path.startswith("/v1/") or operation["x-tracereel-scope"] not in ("read", "admin"):
        return False
    read = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
    asked = query.strip("?").partition("=")[0]
    return asked not in {"", "tenant", *read}


def test_other_tenants_resources_look_nonexistent(site):
    """Neither data nor existence leaks: bravo's ids get the same response as unknown ids."""
    for method, path, operation in site.operations():
        if operation["x-tracereel-scope"] == "public":
            continue
        if operation.get("x-tracereel-stream"):
            continue  # an endless stream; test_tail.py shows that tenants are separated
        mine, nobodys = filled(path, site)
        body = b"{}" if method in ("POST", "PUT", "PATCH") else None
        for query in ("", "?tenant=alpha", f"?trace_id={SECRET_TRACE}"):
            answer = site.ask(method, mine + query, body, site.alpha["key"])
            assert SECRET_TEXT not in answer.body.decode("latin-1")
            assert site.bravo["id"] not in answer.body.decode("latin-1").replace(mine, "") or (
                answer.status == 404
            )
            if mine != nobodys:
                other = site.ask(method, nobodys + query, body, site.alpha["key"])
                ids = {*BRAVOS.values(), *NOBODYS.values(), site.bravo["id"]}
                names = {*ids, otel_trace_id(SECRET_TRACE), otel_trace_id("trc-of-nobody")}
                assert neutral(answer, *names) == neutral(other, *names)
                expected = 200 if path in LISTS else 404
                assert answer.status == (400 if refuses(path, operation, query) else expected)
                assert path not in LISTS or answer.json()["data"] == []


def test_owner_finds_the_same_resources(site):
    """Proves that alpha's empty results are not trivial."""
    for method, path, operation in site.operations():
        if method == "GET" and "{" in path and path not in NOT_MADE:
            assert operation["x-tracereel-scope"] != "public"
            answer = site.ask("GET", filled(path, site)[0], key=site.bravo["key"])
            assert answer.status == 200, f"{path}: {answer.body!r}"
            assert path not in LISTS or answer.json()["data"]


def test_every_route_is_in_the_document_or_known_not_to_be(site):
    """Routes missing in the document are not covered by the tests above."""
    described, hidden = set(), set()
    for route in ROUTES:
        (described if route.include_in_schema else hidden).add(route.path_format)

    assert {path for _, path, _ in site.operations()} == described
    assert hidden - described == UNDESCRIBED


def _lengths(answer):
    """Return the length of each list in a response; for lines, their number."""
    try:
        document = answer.json()
    except ValueError:
        return {"lines": len(answer.body.splitlines())}
    if not isinstance(document, dict):
        return {"items": len(document)}
    return {name: len(value) for name, value in document.items() if isinstance(value, list)}


@pytest.mark.parametrize("attack", ATTACKS, ids=["quote", "backtick", "placeholder"])
def test_parameters_are_treated_as_data(site, attack):
    """Every parameter of every read operation is refused or answered as for an unknown name."""
    key, tried = site.alpha["key"], 0
    for method, path, operation in site.operations():
        if method != "GET" or operation.get("x-tracereel-stream"):
            continue
        places = [each for each in operation.get("parameters", ()) if each["in"] != "header"]
        for place in places:
            name = place["name"]

            def asked(value, path=path, place=place, name=name):
                if place["in"] == "query":
                    target = f"{filled(path, site)[1]}?{name}={quote(value, safe='')}"
                else:
                    target = path.format_map({**NOBODYS, name: quote(value, safe="")})
                return site.ask("GET", target, key=key)

            answer, plain = asked(attack), asked("nobody-has-this")
            tried += 1
            assert answer.status in (200, 400, 404, 422), f"{path} {name}: {answer.body!r}"
            assert SECRET_TEXT not in answer.body.decode("latin-1")
            if answer.status == plain.status == 200:
                more = _lengths(answer).items() - _lengths(plain).items()
                assert not more, f"{path} {name}"

    assert tried > 100
    stored = site.ask("GET", f"/v1/replay/{SECRET_TRACE}", key=site.bravo["key"])
    assert stored.status == 200


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/replay/{SECRET_TRACE}/",
        f"/v1//replay/{SECRET_TRACE}",
        f"/v1/replay/../replay/{SECRET_TRACE}",
        f"/v1/replay/x%2F..%2F{SECRET_TRACE}",
        f"/v1/replay/{SECRET_TRACE}%00",
        f"/V1/replay/{SECRET_TRACE}",
        f"/v1/replay/{SECRET_TRACE};tenant=bravo",
    ],
)
def test_path_traversal_is_refused(site, path):
    answer = site.ask("GET", path, key=site.alpha["key"])

    assert answer.status in (400, 404)
    assert SECRET_TEXT not in answer.body.decode("latin-1")


def test_claims_to_another_tenant_are_refused_wherever_they_stand(site):
    key = site.alpha["key"]
    mine = {"event_id": "claims", "trace_id": "trc-claims"}

    for name in ("x-tenant", "x-tenant-id", "x-scope-orgid", "tenant"):
        refused = site.ask("GET", "/v1/replay/trc-claims", key=key, **{name: "bravo"})
        assert refused.status == 403
        assert refused.json()["error"]["code"] == "tenant_mismatch"
    assert site.send(key, "?tenant=bravo", **mine).status == 403
    assert site.send(key, tenant="bravo", **mine).status == 403
    assert site.send(key, tenant="alpha", **mine).status == 200
    both = [
        {**example("agent.execution.completed"), **mine, "event_id": f"claims-{tenant}"}
        | {"tenant": tenant}
        for tenant in ("alpha", "bravo")
    ]
    answer = site.ask(
        "POST", "/v1/events?wait=stored&timeout=60", json.dumps(both).encode(), key
    ).json()
    assert answer["accepted"] == 1
    assert [each["event_id"] for each in answer["rejected"]] == ["claims-bravo"]
    assert site.ask("GET", "/v1/replay/trc-claims", key=site.bravo["key"]).status == 404


def test_claims_to_another_tenant_in_otlp_resources_are_refused(site):
    def request(*tenants):
        made = ExportTraceServiceRequest()
        for number, tenant in enumerate(tenants):
            resource = made.resource_spans.add()
            value = AnyValue(string_value=tenant)
            resource.resource.attributes.append(KeyValue(key="tenant.id", value=value))
            resource.scope_spans.add().spans.add(
                name="s", trace_id=b"t" * 16, span_id=bytes([number + 1] * 8)
            )
        return made.SerializeToString()

    def send(body):
        headers = {"Content-Type": "application/x-protobuf"}
        return site.ask("POST", "/v1/traces", body, site.alpha["key"], **headers)

    assert send(request("bravo")).status == 403
    partly = send(request("alpha", "bravo", "alpha"))
    assert partly.status == 200
    told = ExportTraceServiceResponse.FromString(partly.body).partial_success
    assert told.rejected_spans == 1
    assert "'bravo' is another tenant" in told.error_message
    counts = [
        site.collector.metric(f"tracereel_records_{name}_total", kind="spans")
        for name in ("received", "rejected", "appended")
    ]
    assert counts == [4, 2, 2]


def test_a_key_made_over_http_works_until_it_is_revoked(site):
    admin = site.alpha["key"]
    body = json.dumps({"scopes": "read", "name": "grafana", "expires": "1h"}).encode()
    made = site.ask("POST", "/v1/keys", body, admin)
    assert made.status == 201
    key = made.json()
    assert site.ask("GET", "/v1/replay/none", key=key["key"]).status == 404
    listed = site.ask("GET", "/v1/keys", key=admin)
    assert key["key"] not in listed.body.decode()
    assert {each["tenant"] for each in listed.json()["keys"]} == {"alpha"}

    assert site.ask("DELETE", f"/v1/keys/{key['id']}", key=admin).json()["state"] == "revoked"
    assert site.ask("GET", "/v1/replay/none", key=key["key"]).status == 401


def test_a_key_revoked_by_the_command_stops_working_within_two_seconds(site):
    folder = site.collector.data_dir
    options = ("--tenant", "alpha", "--name", "short lived", "--json")
    made = json.loads(keys_command(folder, "create", *options).stdout)
    assert site.ask("GET", "/v1/replay/none", key=made["key"]).status == 404

    assert keys_command(folder, "revoke", made["id"]).returncode == 0

    wait_until(lambda: site.ask("GET", "/v1/replay/none", key=made["key"]).status == 401, timeout=2)
    listed = keys_command(folder, "list", "--tenant", "alpha")
    (line,) = [line for line in listed.stdout.splitlines() if made["id"] in line]
    assert "revoked" in line
    assert "short lived" in line
    assert made["key"] not in listed.stdout


def test_an_event_that_claims_anothers_session_is_kept_and_flagged(site):
    before = site.collector.metric("tracereel_session_user_mismatches_total")
    for number, user in enumerate(["ana", "bob", "ana", None]):
        answer = site.send(
            site.alpha["key"],
            "?wait=stored&timeout=60",
            event_id=f"session-{number}",
            trace_id="trc-session",
            session_id="shared",
            user_id=user,
            session_user_mismatch=True,
        )
        assert answer.json()["accepted"] == 1

    timeline = site.ask("GET", "/v1/replay/trc-session", key=site.alpha["key"]).json()["timeline"]
    flagged = {
        entry["details"]["event_id"]: entry["details"].get("session_user_mismatch")
        for entry in timeline
    }
    assert flagged == {
        "session-0": None,
        "session-1": True,
        "session-2": None,
        "session-3": None,
    }
    assert site.collector.metric("tracereel_session_user_mismatches_total") == before + 1


def test_only_the_configured_origin_is_let_in(site):
    key = site.alpha["key"]
    preflight = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key,content-type",
    }

    allowed = site.ask("OPTIONS", "/v1/events", **preflight)
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    other = site.ask("OPTIONS", "/v1/events", **{**preflight, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
    evil = site.ask("GET", "/v1/replay/none", key=key, Origin="https://evil.example")
    assert evil.status == 403
    assert "access-control-allow-origin" not in evil.headers


def test_the_audit_log_and_the_collectors_own_log_hold_no_key(site):
    site.send("trk_0123456789ab_" + "wrong" * 8 + "abc")
    folder = site.collector.data_dir / "audit"
    wait_until(lambda: "request.refused" in (folder / "audit.ndjson").read_text(), timeout=5)

    text = (folder / "audit.ndjson").read_text() + "\n".join(site.collector.output)
    for key in (site.alpha["key"], site.bravo["key"], *site.only.values()):
        assert secret_of(key) not in text
    assert "wrongwrong" not in text
    lines = (folder / "audit.ndjson").read_text().splitlines()
    events = {json.loads(line)["event"] for line in lines}
    assert {"key.created", "key.used", "request.refused"} <= events


def test_grpc_has_the_same_gate(site):
    """Keys, scopes, claims and shares also apply to the gRPC port."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = b"g" * 16, b"g" * 8, "over gRPC"
    body = request.SerializeToString()
    with grpc.insecure_channel(f"127.0.0.1:{site.collector.grpc_port}") as channel:
        export = channel.unary_unary(
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            request_serializer=bytes,
            response_deserializer=bytes,
        )

        def code(*metadata):
            try:
                export(body, metadata=metadata, timeout=20)
            except grpc.RpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        assert code() is grpc.StatusCode.UNAUTHENTICATED
        assert code(("x-api-key", "wrong")) is grpc.StatusCode.UNAUTHENTICATED
        assert code(("x-api-key", site.only["read"])) is grpc.StatusCode.PERMISSION_DENIED
        mine = ("authorization", f"Bearer {site.alpha['key']}")
        assert code(mine, ("x-tenant", "bravo")) is grpc.StatusCode.PERMISSION_DENIED
        assert code(mine) is grpc.StatusCode.OK


def test_thousands_of_wrong_keys_do_not_affect_a_valid_key(site):
    """T24, on one connection: wrong keys are throttled while a known key keeps working."""
    script = """
import http.client, sys
from urllib.parse import urlsplit
url = urlsplit(sys.argv[1])
connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
codes = {}
for number in range(2000):
    headers = {"x-api-key": f"guess{number}"}
    connection.request("GET", "/v1/replay/none", headers=headers)
    answer = connection.getresponse()
    answer.read()
    codes[answer.status] = codes.get(answer.status, 0) + 1
    if answer.status == 429:
        assert int(answer.headers["retry-after"]) >= 1
print(codes)
"""
    assert site.ask("GET", "/v1/replay/none", key=site.alpha["key"]).status == 404
    guessing = subprocess.Popen(
        [sys.executable, "-c", script, site.collector.url], stdout=subprocess.PIPE, text=True
    )
    answers = set()
    while guessing.poll() is None:
        answers.add(site.ask("GET", "/v1/replay/none", key=site.alpha["key"]).status)
    with guessing.stdout as output:
        codes = eval(output.read())

    assert guessing.returncode == 0
    assert answers == {404}
    assert codes[401] < 20
    assert codes[429] > 1900
    counted = site.collector.metric("tracereel_access_refused_total", reason="too_many_tries")
    assert counted >= codes[429]


def test_keys_cannot_be_created_over_http_before_the_first_key(collector):
    """The first key requires access to the data directory, not just to the port."""
    for method, path in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/x")):
        answer = http(method, f"{collector.url}{path}", b"{}" if method == "POST" else None)
        assert answer.status == 403
        assert "keys create" in answer.json()["error"]["hint"]
