"""Parameters that no route reads: a misspelt filter must not find everything."""

import re

import pytest

from tests.support.collector import http


@pytest.fixture(scope="module")
def operations(collector):
    """Every operation of ours that reads or deletes, from the OpenAPI document."""
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


def test_the_refusal_names_those_there_are(collector):
    """`since` is what an export has; a search for it found every run there is."""
    answer = http("GET", f"{collector.url}/v1/traces?since=1h")

    said = answer.json()["error"]["message"]
    assert (answer.status, said[:44]) == (400, "there is no parameter 'since'; expected some")
    assert ", from, " in said
    assert ", to, " in said
    nothing = http("DELETE", f"{collector.url}/v1/traces/x?dry_run=1").json()["error"]["message"]
    assert nothing == "there is no parameter 'dry_run'; expected none"


def test_clients_of_others_may_send_what_they_like(collector):
    """Jaeger's page and Grafana add parameters of their own; so do exporters."""
    assert http("GET", f"{collector.url}/api/services?nonsense=1").status == 200
    assert http("GET", f"{collector.url}/v1/traces?tenant=default&limit=1").status == 200
