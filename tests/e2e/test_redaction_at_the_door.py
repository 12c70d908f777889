"""Redaction at ingest: secrets of senders without redaction reach no file and no response."""

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.support.collector import CollectorProcess, http
from tests.support.contract import example
from tests.support.secret_samples import CORPUS, leaks
from tests.support.waiting import wait_until

EVENT = example("agent.execution.completed")


@pytest.fixture(scope="module")
def redacting(tmp_path_factory):
    running = CollectorProcess(
        tmp_path_factory.mktemp("redacting"), environ={"TRACEREEL_REDACT": "on"}
    ).start()
    yield running
    running.stop()


def contents(folder):
    """Return every file below a directory, reread until the store replaced none meanwhile."""
    found = {}

    def look():
        found.clear()
        try:
            found.update((file, file.read_bytes()) for file in folder.rglob("*") if file.is_file())
        except FileNotFoundError:
            return False
        return True

    wait_until(look, timeout=30, message="files of the store go while they are read")
    return found


def test_no_secret_reaches_the_queue_the_store_the_log_or_an_answer(redacting):
    events = [
        {
            **EVENT,
            "event_id": f"r{number}",
            "trace_id": "trc-redacted",
            "reasoning": f"they said {sample}",
            "output_data": {"nested": [sample]},
        }
        for number, (_, sample) in enumerate(CORPUS)
    ]
    refused = {**EVENT, "agent_name": 5, "reasoning": CORPUS[0][1]}
    spans = ExportTraceServiceRequest()
    scope = spans.resource_spans.add().scope_spans.add()
    for number, (_, sample) in enumerate(CORPUS):
        span = scope.spans.add(trace_id=b"r" * 16, span_id=number.to_bytes(8, "big"), name="call")
        span.attributes.append(KeyValue(key="prompt", value=AnyValue(string_value=sample)))

    answer = redacting.post_events([*events, refused])
    assert answer.json()["accepted"] == len(CORPUS)
    sent = http(
        "POST",
        f"{redacting.url}/v1/traces",
        spans.SerializeToString(),
        {"Content-Type": "application/x-protobuf"},
    )
    assert sent.status == 200

    replayed = redacting.replay("trc-redacted")
    assert json.loads(replayed.body)["summary"]["total_events"] == len(CORPUS)
    assert leaks(replayed.body.decode()) == []
    assert leaks(answer.body.decode()) == []
    assert leaks("\n".join(redacting.output)) == []
    files = contents(redacting.data_dir)
    assert any(file.name.startswith("queue.sqlite") for file in files)
    for file, content in files.items():
        assert leaks(content.decode("latin-1")) == [], file.name
    assert redacting.metric("tracereel_redactions_total", rule="email") >= 18
