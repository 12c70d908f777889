"""Every read route gives the same answers on the embedded engine, on a server and on a cluster.

The cluster is the one of `TRACEREEL_TEST_CLUSTER` (tests/support/clickhouse_cluster.py).
"""

import json
from itertools import pairwise
from urllib.parse import quote

import pytest

from tests.support import same_corpus
from tests.support.clickhouse_cluster import apply_schema, new_cluster_database
from tests.support.clickhouse_server import new_database
from tests.support.collector import CollectorProcess, http
from tracereel_collector.http import build

ALWAYS = "from=1970-01-01T00:00:00Z&to=2027-01-01T00:00:00Z"
SINCE = "since=1970-01-01T00:00:00Z"
JAEGER = "start_time_min=1970-01-01T00:00:00Z&start_time_max=2100-01-01T00:00:00Z"
OWN = {"ingested_at", "IngestedAt", "last_at", "last_event_at", "last_heartbeat_at", "updated_at"}
"""Fields with times of receipt or answer."""
ELSEWHERE = {
    "/v1/tail": "reads the queue, not the store",
    "/v1/keys": "keys.sqlite",
    "/v1/identity": "keys.sqlite",
    "/api/public/projects": "the tenant of the key",
    "/v1/quarantine/{entry_id}": "the queue; the list is compared",
    "/api/metrics/{name}": "always 501",
    "/healthz": "no data",
    "/readyz": "names the store's address",
    "/readyz/query": "no data",
    "/metrics": "figures of the process",
    "/": "a file",
    "/docs": "a file",
    "/web/{path}": "files",
}
"""Routes that are not compared, with the reason."""
JOINED = (
    "SELECT e.agent_name, sum(s.errors) FROM agent_events AS e JOIN trace_summaries AS s"
    " USING (trace_id) GROUP BY ALL ORDER BY ALL"
)
SQL = (
    JOINED,
    "SELECT event_type, count() FROM agent_events GROUP BY ALL ORDER BY ALL",
    "SELECT SpanName, count() FROM otel_traces GROUP BY ALL ORDER BY ALL",
    "SELECT Body FROM otel_logs ORDER BY Timestamp",
    "SELECT MetricName, Value FROM otel_metrics_gauge ORDER BY ALL",
    "SELECT count() FROM otel_metrics_histogram",
    "SHOW TABLES",
)


@pytest.fixture(scope="module")
def bodies():
    return same_corpus.corpus()


@pytest.fixture(scope="module")
def embedded(bodies, tmp_path_factory):
    running = CollectorProcess(
        tmp_path_factory.mktemp("embedded"), arguments=("--local-admin",)
    ).start()
    same_corpus.load(running, bodies)
    yield running
    running.stop()


@pytest.fixture(params=["server", "cluster"], scope="module")
def addresses(request):
    """Return what `--store` takes: to load the data, and to read it."""
    if request.param == "server":
        yield [new_database(request.getfixturevalue("clickhouse_server"))]
        return
    database = new_cluster_database()
    apply_schema(database.dsns[0], database.nodes)
    yield [database.dsns[0], database.dsns[-1]]
    database.drop()


@pytest.fixture(scope="module")
def other(addresses, bodies, tmp_path_factory):
    """Return a collector with the same data in another store; of a cluster, through another node."""
    running = [
        CollectorProcess(
            tmp_path_factory.mktemp("other"), arguments=("--local-admin", "--store", address)
        ).start()
        for address in addresses
    ]
    same_corpus.load(running[0], bodies)
    yield running[-1]
    for each in running:
        each.stop()


@pytest.fixture(scope="module")
def requests(embedded):
    """Return paths to request, by route template."""

    def read(path):
        answer = http("GET", embedded.url + path)
        assert answer.status == 200, (path, answer.body)
        return answer.json()

    runs = [row["trace_id"] for row in read(f"/v1/traces?{ALWAYS}&limit=200")["traces"]]
    assert len(runs) > 40
    for statement in SQL:
        assert http("GET", f"{embedded.url}/clickhouse?query={quote(statement)}").status == 200
    steps = [
        (run, step["id"])
        for run in runs[::3]
        for step in _steps(read(f"/v1/traces/{quote(run, safe='')}"))[:3]
    ]
    sessions = read(f"/v1/sessions?{ALWAYS}")["sessions"]
    agents = read(f"/v1/agents?{ALWAYS}")["agents"]
    services = read("/api/services")["data"]
    named = [quote(run, safe="") for run in runs]
    return {
        "/v1/traces": _searches(runs),
        "/v1/asked": [f"/v1/asked?trace_id={a}&trace_id={b}" for a, b in pairwise(named)],
        "/v1/traces/{trace_id}": [f"/v1/traces/{run}" for run in named],
        "/v1/replay/{trace_id}": [f"/v1/replay/{run}" for run in named],
        "/v1/traces/{trace_id}/completeness": [f"/v1/traces/{r}/completeness" for r in named],
        "/v1/traces/{trace_id}/tape": [f"/v1/traces/{run}/tape" for run in named[::4]],
        "/v1/tapes": [f"/v1/tapes?trace_id={a}&trace_id={b}" for a, b in pairwise(named)],
        "/v1/traces/{trace_id}/replayable": [f"/v1/traces/{r}/replayable" for r in named[::4]],
        "/v1/traces/{trace_id}/jaeger": [f"/v1/traces/{run}/jaeger" for run in named[::4]],
        "/v1/traces/{a}/diff/{b}": [
            f"/v1/traces/{a}/diff/{b}" for a, b in zip(named[::5], named[1::5], strict=False)
        ],
        "/v1/traces/{trace_id}/steps/{step_id}/content": [
            f"/v1/traces/{quote(run, safe='')}/steps/{quote(step, safe='')}/content"
            for run, step in steps
        ],
        "/v1/sessions": [f"/v1/sessions?{ALWAYS}", f"/v1/sessions?{ALWAYS}&user=ana&limit=2"],
        "/v1/sessions/{session_id}": [
            f"/v1/sessions/{quote(each['session_id'], safe='')}?events=50" for each in sessions
        ],
        "/v1/agents": [f"/v1/agents?{ALWAYS}&points=12", f"/v1/agents?{ALWAYS}"],
        "/v1/agents/{name}": [
            f"/v1/agents/{quote(each['agent'], safe='')}?{ALWAYS}" for each in agents
        ],
        "/v1/unread-attributes": ["/v1/unread-attributes"],
        "/v1/emitters": ["/v1/emitters", "/v1/emitters?state=ended"],
        "/v1/scores": ["/v1/scores", "/v1/scores?name=helpful&min=1"],
        "/v1/scores/averages": ["/v1/scores/averages"],
        "/v1/fleets": ["/v1/fleets", "/v1/fleets?limit=1"],
        "/v1/fleets/{fleet_id}": [
            f"/v1/fleets/{each['fleet_id']}" for each in read("/v1/fleets")["fleets"]
        ],
        "/v1/retention": ["/v1/retention"],
        "/v1/quarantine": ["/v1/quarantine"],
        "/v1/export": [
            f"/v1/export?{SINCE}&table={table}" for table in ("events", "spans", "scores")
        ],
        "/clickhouse": [f"/clickhouse?query={quote(statement)}" for statement in SQL],
        "/clickhouse/": [f"/clickhouse/?query={quote(SQL[0])}"],
        "/clickhouse/ping": ["/clickhouse/ping"],
        "/ping": ["/ping"],
        "/api/services": ["/api/services"],
        "/api/services/{service}/operations": [
            f"/api/services/{quote(each, safe='')}/operations" for each in services
        ],
        "/api/operations": [f"/api/operations?service={quote(each)}" for each in services],
        "/api/traces": [
            f"/api/traces?service={quote(each)}&start=0&end=4000000000000000&limit=50"
            for each in services
        ],
        "/api/traces/{trace_id}": [f"/api/traces/{run}" for run in named[::4]],
        "/api/dependencies": ["/api/dependencies?endTs=4000000000000&lookback=4000000000000"],
        "/api/v3/services": ["/api/v3/services"],
        "/api/v3/operations": [f"/api/v3/operations?service={quote(each)}" for each in services],
        "/api/v3/traces": [
            f"/api/v3/traces?query.service_name={quote(each)}&{JAEGER}" for each in services
        ],
        "/api/v3/trace-summaries": [
            f"/api/v3/trace-summaries?query.service_name={quote(each)}&{JAEGER}"
            for each in services
        ],
        "/api/v3/traces/{trace_id}": [f"/api/v3/traces/{run}" for run in named[::4]],
        "/api/v3/dependencies": [
            "/api/v3/dependencies?end_time=2100-01-01T00:00:00Z&lookback=4000000000000"
        ],
    }


def _searches(runs):
    given = (
        *("facets=true", "histogram=24", "executions=true", "scores=true", "sort=cost"),
        *("sort=duration&order=asc", "status=failed", "q=broke", "user=ana", "agent=parser"),
        *("model=gpt-5", "min_errors=1", "limit=7", "score=helpful&min_score=1"),
        *("decision_agent=parser", "provider=openai", "min_tokens=1", "service=desk"),
    )
    return [f"/v1/traces?{ALWAYS}&limit={len(runs)}&{each}" for each in given]


def _steps(document):
    found, waiting = [], [document]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, dict):
            if "id" in value and "kind" in value:
                found.append(value)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


def test_every_read_route_is_compared_or_named(requests):
    routes = {route.path_format for route in build.ROUTES if "GET" in route.methods}

    assert routes == set(requests) | set(ELSEWHERE)
    assert not set(requests) & set(ELSEWHERE)
    assert all(requests.values())


def test_every_read_route_gives_the_same_answers(embedded, other, requests):
    different = {}
    for paths in requests.values():
        for path in paths:
            here, there = (answered(each, path) for each in (embedded, other))
            if here != there:
                different[path] = first_difference(here, there)
    assert not different, "\n".join(f"{path}: {what}" for path, what in different.items())


def answered(collector, path):
    answer = http("GET", collector.url + path, timeout=60)
    try:
        lines = [without_own(json.loads(line)) for line in answer.body.splitlines()]
    except ValueError:
        lines = answer.body
    return answer.status, lines


def without_own(value):
    if isinstance(value, dict):
        return {name: without_own(each) for name, each in value.items() if name not in OWN}
    return [without_own(each) for each in value] if isinstance(value, list) else value


def first_difference(here, there, at=""):
    """Return where two answers differ first, with both values."""
    if type(here) is type(there) and isinstance(here, dict):
        for name in sorted({*here, *there}):
            if here.get(name) != there.get(name):
                return first_difference(here.get(name), there.get(name), f"{at}.{name}")
    if type(here) is type(there) and isinstance(here, list | tuple) and len(here) == len(there):
        for number, (one, another) in enumerate(zip(here, there, strict=True)):
            if one != another:
                return first_difference(one, another, f"{at}[{number}]")
    return at, str(here)[:500], str(there)[:500]
