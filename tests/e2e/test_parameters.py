"""Unknown query parameters are refused, so that a misspelt filter does not match everything."""

import re

import pytest

from tests.support.collector import http


@pytest.fixture(scope="module")
def operations(collector):
    """Return every read or delete operation of ours, from the OpenAPI document."""
    paths = http("GET", f"{collector.url}/openapi.json").json()["paths"]
    return [
        (method.upper(), re.sub(r"\{[^}]*\}", "x", path))
        for path, methods in paths.items()
        for method, operation in methods.items()
        if path.startswith("/v1/") and operation["x-tracereel-scope"] in ("read", "admin")
    ]


def test_every_route_of_ours_refuses_a_parameter_it_does_not_read(collector, operations):
    assert len(operations) > 20
    for method, path in operations:
        answer = http(
            method, f"{collector.url}{path}?nonsense=1", b"" if method == "POST" else None
        )

        assert answer.status == 400, (method, path)
        assert "there is no parameter 'nonsense'" in answer.json()["error"]["message"], path


def test_unknown_parameter_error_lists_the_known_ones(collector):
    """`since` is a parameter of exports; a search used to ignore it and find every run."""
    answer = http("GET", f"{collector.url}/v1/traces?since=1h")

    reason = answer.json()["error"]["message"]
    assert (answer.status, reason[:44]) == (400, "there is no parameter 'since'; expected some")
    assert ", from, " in reason
    assert ", to, " in reason
    nothing = http("DELETE", f"{collector.url}/v1/traces/x?dry_run=1").json()["error"]["message"]
    assert nothing == "there is no parameter 'dry_run'; expected none"


def test_third_party_routes_accept_unknown_parameters(collector):
    """Jaeger's page, Grafana and exporters add their own parameters."""
    assert http("GET", f"{collector.url}/api/services?nonsense=1").status == 200
    assert http("GET", f"{collector.url}/v1/traces?tenant=default&limit=1").status == 200


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        *(
            (
                f"{route}?min_{name}=0.75&max_{name}=0.5",
                f"min_{name}: 0.75 is above max_{name}: 0.5",
            )
            for route in ("traces", "tail")
            for name in ("duration_ms", "cost_usd", "tokens", "confidence")
        ),
        ("traces?min_score=2&max_score=1", "min_score: 2 is above max_score: 1"),
        ("scores?min=-1&max=-2", "min: -1 is above max: -2"),
        ("traces?from=1h&to=2h", "to: '2h' is not after from: '1h'"),
        ("traces?from=2026-01-02&to=2026-01-02", "to: '2026-01-02' is not after from"),
        ("sessions?from=1h&to=2h", "to: '2h' is not after from: '1h'"),
        ("agents?from=1h&to=2h", "to: '2h' is not after from: '1h'"),
        ("agents/a?from=1h&to=2h", "to: '2h' is not after from: '1h'"),
        ("export?since=1h&until=2h", "until: '2h' is not after since: '1h'"),
    ],
)
def test_empty_range_is_refused_with_both_ends(collector, query, reason):
    answer = http("GET", f"{collector.url}/v1/{query}")

    assert answer.status == 400, answer.body
    assert f"Invalid filter: {reason}" in answer.json()["error"]["message"]


def test_range_of_one_value_is_valid(collector):
    for query in ("traces?min_tokens=5&max_tokens=5&min_score=1&max_score=1", "scores?min=1&max=1"):
        assert http("GET", f"{collector.url}/v1/{query}").status == 200
