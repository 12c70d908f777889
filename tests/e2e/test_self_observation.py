"""The collector's own spans and logs are exported elsewhere, never to itself."""

import os
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from prometheus_client import CollectorRegistry

from tests.support.collector import CollectorProcess, free_port, http
from tests.support.flaky_proxy import FlakyProxy
from tests.support.otlp_sink import Answers, OtlpSink
from tests.support.waiting import wait_until
from tracereel_collector import telemetry
from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.otlp_out.observe.observer import own_id_of, self_observation, self_target
from tracereel_collector.store.sql import migrations

EVENT = {
    "event_id": "e1",
    "event_type": "custom.self",
    "timestamp": "2026-01-23T10:00:00Z",
    "trace_id": "trc_self",
}


@pytest.fixture(scope="module")
def sink():
    with OtlpSink() as running:
        yield running


@pytest.fixture(scope="module")
def watched(sink, tmp_path_factory):
    running = CollectorProcess(
        tmp_path_factory.mktemp("watched"), environ={"TRACEREEL_SELF_TO": sink.url}, fresh=True
    ).start()
    yield running
    running.stop()


def values(record):
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in record.attributes
    }


def test_requests_and_batches_become_spans_elsewhere(watched, sink):
    headers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
    assert watched.post_events([EVENT], headers=headers).status == 200

    wait_until(lambda: {"POST /v1/events", "deliver events"} <= set(sink.names))

    request = next(span for span in sink.spans if span.name == "POST /v1/events")
    assert values(request) == {
        "http.request.method": "POST",
        "http.route": "/v1/events",
        "http.response.status_code": 200,
    }
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == ("ab" * 16, "cd" * 8)
    assert request.end_time_unix_nano >= request.start_time_unix_nano > 0
    batch = next(span for span in sink.spans if span.name == "deliver events")
    assert values(batch)["tracereel.records_stored"] == 1
    assert sink.resources[0]["service.name"] == "tracereel-collector"
    wait_until(lambda: watched.metric("tracereel_self_sent_total", signal="traces") >= 2)


def test_log_lines_go_there_as_records(watched, sink):
    wait_until(lambda: "store_prepared" in [record.body.string_value for record in sink.logs])

    line = next(each for each in sink.logs if each.body.string_value == "store_prepared")
    assert line.severity_text == "info"
    assert values(line)["migrations"] == len(migrations())
    assert line.time_unix_nano > 0


def test_exports_of_whichever_collector_make_no_spans(watched, sink):
    http("GET", f"{watched.url}/v1/sessions", headers={"x-tracereel-self": "somebody-else"})
    http("GET", f"{watched.url}/v1/agents")

    wait_until(lambda: "GET /v1/agents" in sink.names)

    assert "GET /v1/sessions" not in sink.names


def test_own_telemetry_through_a_proxy_is_refused_without_a_loop(tmp_path):
    port = free_port()
    with closing(FlakyProxy("127.0.0.1", port)) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        home = CollectorProcess(
            tmp_path / "data", port=port, environ={"TRACEREEL_SELF_TO": address}
        ).start()
        try:
            assert home.post_events([EVENT]).status == 200
            wait_until(lambda: home.metric("tracereel_self_dropped_total", reason="refused") >= 2)
            assert home.metric("tracereel_records_received_total", kind="spans") == 0
            assert home.metric("tracereel_records_received_total", kind="logs") == 0
            assert home.metric("tracereel_self_sent_total") == 0
            assert sum("self_target_fails" in line for line in home.output) == 1
        finally:
            home.stop()


def test_unreachable_self_observation_target_does_not_affect_ingest(tmp_path):
    away = CollectorProcess(
        tmp_path / "data", environ={"TRACEREEL_SELF_TO": f"http://127.0.0.1:{free_port()}"}
    ).start()

    assert away.post_events([EVENT]).json()["status"] == "stored"
    assert away.stop() == 0


def settings(**more):
    return Settings(**{"host": "127.0.0.1", "port": 4318, **more})


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:4318", "127.0.0.1"),
        ("http://localhost:4318/base", "127.0.0.1"),
        ("http://localhost:4317", "127.0.0.1"),
        ("http://127.0.0.9:4318", "0.0.0.0"),
        ("http://[::1]:4318", "::"),
        ("http://0.0.0.0:4318", "0.0.0.0"),
    ],
)
def test_own_address_is_refused_as_self_observation_target(url, host):
    with pytest.raises(StartupError, match="TRACEREEL_SELF_TO is this collector itself"):
        self_target(settings(host=host, self_to=url))


@pytest.mark.parametrize("url", ["http://127.0.0.1:4319", "http://192.0.2.7:4318"])
def test_other_addresses_are_accepted_as_self_observation_target(url):
    target, signals = self_target(settings(host="0.0.0.0", self_to=url))

    assert target is not None
    assert signals == {"traces", "logs"}


def test_self_observation_to_itself_is_one_error_line(tmp_path):
    port = free_port()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "serve", "--port", str(port)),
            *("--grpc-port", "off", "--data-dir", str(tmp_path / "data")),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRACEREEL_SELF_TO": f"http://localhost:{port}"},
    )

    assert done.returncode == 2
    assert done.stderr == (
        f"tracereel serve: TRACEREEL_SELF_TO is this collector itself (localhost:{port})"
        " (name another OTLP endpoint)\n"
    )


def test_signals_that_are_not_known_are_refused():
    with pytest.raises(StartupError, match="'metrics' is not known; expected traces, logs"):
        self_target(settings(self_signals="metrics"))


def test_self_observation_is_off_by_default(tmp_path):
    assert self_observation(settings(data_dir=tmp_path), CollectorRegistry()) is None
    assert telemetry._tap is None
    assert "self-export" not in [thread.name for thread in threading.enumerate()]


def test_self_observation_queue_is_bounded_and_drops_are_counted(tmp_path):
    registry = CollectorRegistry()
    made = self_observation(
        settings(data_dir=tmp_path, self_to="http://127.0.0.1:9", self_queue=10), registry
    )

    for _ in range(25):
        made.exporter.offer(ReadableSpan("x"))

    dropped = registry.get_sample_value(
        "tracereel_self_dropped_total", {"signal": "traces", "reason": "full"}
    )
    assert dropped == 15


def test_partially_rejected_records_are_counted_as_refused(tmp_path):
    registry = CollectorRegistry()

    def counted(name, **labels):
        return registry.get_sample_value(name, {"signal": "traces", **labels})

    with OtlpSink() as target:
        target.answers = Answers(refused=2)
        made = self_observation(settings(data_dir=tmp_path, self_to=target.url), registry)
        for _ in range(5):
            made.request_done(method="GET", route="/", status=200, seconds=0, headers=[])
        made.start()
        made.stop(timeout=20)

    assert counted("tracereel_self_sent_total") == 3
    assert counted("tracereel_self_dropped_total", reason="refused") == 2


def test_a_certificate_that_cannot_be_read_is_named_at_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")
    with pytest.raises(StartupError, match="certificates of the environment cannot be read"):
        self_observation(
            settings(data_dir=tmp_path, self_to="https://127.0.0.1:9"), CollectorRegistry()
        )


def test_zero_sampling_share_makes_no_spans(tmp_path):
    registry = CollectorRegistry()
    made = self_observation(
        settings(data_dir=tmp_path, self_to="http://127.0.0.1:9", self_share=0.0, self_queue=1),
        registry,
    )
    for _ in range(5):
        made.request_done(method="GET", route="/", status=200, seconds=0, headers=[])

    assert list(made.exporter._waiting) == []


def test_all_workers_of_a_collector_are_one(tmp_path):
    assert own_id_of(settings(data_dir=tmp_path)) == own_id_of(settings(data_dir=tmp_path))
    assert own_id_of(settings(data_dir=tmp_path)) != own_id_of(settings(data_dir=tmp_path / "b"))
