"""Doors of other tools: Langfuse's paths, Basic auth, trailing slashes, gRPC health."""

import base64
import json

import grpc
import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from tests.clients import fields
from tests.support.collector import CollectorProcess, free_port
from tests.support.waiting import wait_until

SECRET = "the-key-of-tenant-acme"
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    collector = CollectorProcess(
        tmp_path_factory.mktemp("guarded"),
        grpc_port=free_port(),
        environ={"TRACEREEL_API_KEYS": f"acme:{SECRET}"},
    ).start()
    yield collector
    collector.stop()


@pytest.fixture
def client(guarded):
    headers = {"Authorization": basic("pk-lf-anything", SECRET)}
    with httpx.Client(base_url=guarded.url, headers=headers, timeout=30) as made:
        yield made


def test_langfuse_spans_arrive_at_its_own_path(client):
    spans = fields.spans_of("langfuse")

    answer = client.post(
        "/api/public/otel/v1/traces", content=spans.SerializeToString(), headers=PROTOBUF
    )

    assert answer.status_code == 200
    (trace, *_) = fields.traces_of(spans)
    run = wait_until(lambda: found(client.get(f"/v1/traces/{trace}")))
    assert run["name"] == "guide"


def found(answer):
    return answer.json() if answer.status_code == 200 else None


@pytest.mark.parametrize("header", [None, basic("pk", "wrong"), "Basic not-base64", "Basic"])
def test_wrong_basic_credentials_are_refused(guarded, header):
    headers = {"Authorization": header} if header else {}

    assert httpx.get(f"{guarded.url}/api/public/projects", headers=headers).status_code == 401


def test_langfuse_finds_one_project_with_its_credentials(client):
    (project,) = client.get("/api/public/projects").json()["data"]

    assert (project["id"], project["organization"]["name"]) == ("acme", "acme")


def test_langfuse_scores_are_stored_with_their_types(client):
    trace = "ab" * 16
    scores = [
        {"id": "s1", "traceId": trace, "name": "accuracy", "value": 0.5, "environment": "default"},
        {"id": "s2", "traceId": trace, "name": "fine", "value": 1.0, "dataType": "BOOLEAN"},
        {"id": "s3", "traceId": trace, "observationId": "cd" * 8, "name": "tone", "value": "kind"},
    ]

    answer = client.post("/api/public/scores", json=scores)

    assert (answer.status_code, answer.json()) == (202, {"message": "Accepted"})
    listed = wait_until(
        lambda: client.get("/v1/scores", params={"trace_id": trace}).json()["scores"]
    )
    values = {each["name"]: each["value"] for each in listed}
    assert values == {"accuracy": 0.5, "fine": True, "tone": "kind"}


def test_refused_langfuse_scores_are_named_and_the_others_kept(client):
    scores = [
        {"traceId": "ef" * 16, "name": "kept", "value": 1.0},
        {"datasetRunId": "d", "name": "no trace", "value": 1.0},
    ]

    answer = client.post("/api/public/scores", json=scores)

    assert answer.status_code == 207
    said = answer.json()
    assert (said["accepted"], said["rejected"], len(said["errors"])) == (1, 1, 1)


@pytest.mark.parametrize("path", ["/v1/traces/", "/v1/logs/", "/v1/metrics/"])
def test_otlp_is_received_at_a_path_with_a_slash(client, path):
    assert client.post(path, content=b"", headers=PROTOBUF).status_code == 200


def test_the_registered_name_of_protobuf_is_accepted_and_answered(client):
    headers = {"Content-Type": "application/protobuf"}

    answer = client.post("/v1/traces", content=b"", headers=headers)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/protobuf"


def test_basic_auth_is_accepted_by_otlp_over_http(client):
    body = json.dumps({"resourceSpans": []})
    headers = {"Content-Type": "application/json"}

    assert client.post("/v1/traces", content=body, headers=headers).status_code == 200


def test_metrics_are_openmetrics_when_asked_with_the_same_names(client):
    client.get("/metrics")  # so that there are series of requests
    plain = client.get("/metrics")
    asked = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})

    assert asked.headers["content-type"].startswith("application/openmetrics-text")
    assert plain.headers["content-type"].startswith("text/plain")
    assert asked.text.endswith("# EOF\n")
    samples = [
        {sample.name for family in parse(answer.text) for sample in family.samples}
        for parse, answer in ((openmetrics, asked), (prometheus, plain))
    ]
    assert {name for name in samples[1] if not name.endswith("_created")} <= samples[0]


def test_grpc_health_is_serving_without_a_key(guarded):
    with grpc.insecure_channel(f"127.0.0.1:{guarded.grpc_port}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")

        assert check(b"", timeout=30) == b"\x08\x01"
        assert next(iter(watch(b"", timeout=30))) == b"\x08\x01"
