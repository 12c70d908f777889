"""Model calls end to end: recorded spans in, priced calls out."""

import json

import clickhouse_connect
import pytest

from tests.collector.store.dialects.golden import FIXTURES
from tests.collector.store.dialects.handwritten import request
from tests.support.collector import CollectorProcess, http
from tests.support.waiting import wait_until

PROTOBUF = {"Content-Type": "application/x-protobuf"}
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.usage.input_tokens": 1_000_000,
    "gen_ai.usage.output_tokens": 0,
}


@pytest.fixture(scope="module")
def priced(tmp_path_factory):
    """Return a collector with a user's price file."""
    folder = tmp_path_factory.mktemp("priced")
    file = folder / "prices.csv"
    file.write_text(
        "providers,model,valid_from,input,output,cache_read,cache_write,source\n"
        "openai,house-model,2020-01-01,3,4,,,us\n"
    )
    running = CollectorProcess(folder / "data", environ={"TRACEREEL_PRICE_FILE": str(file)}).start()
    yield running
    running.stop()


def rows(collector, query):
    address = http("GET", f"{collector.url}/readyz").json()["store"]["address"]
    host, port = address.split(":")
    secret = (collector.data_dir / "store" / "engine.secret").read_text().strip()
    client = clickhouse_connect.get_client(
        host=host, port=int(port), username="u", password=secret, database="tracereel"
    )
    try:
        return client.query(query).result_rows
    finally:
        client.close()


def test_calls_are_priced_by_the_users_file_and_unknown_models_are_counted(priced):
    calls = [
        # Messages as a structured value, not as JSON text.
        {
            **CALL,
            "gen_ai.request.model": "house-model",
            "gen_ai.input.messages": [{"role": "user", "content": "hi"}],
        },
        {**CALL, "gen_ai.request.model": "mystery-1"},
    ]
    for body in (request("e2e", calls), (FIXTURES / "openinference-anthropic.pb").read_bytes()):
        assert http("POST", f"{priced.url}/v1/traces", body, PROTOBUF).status == 200

    expected = [
        ("claude-sonnet-4-5-20250929", pytest.approx(0.0005625), "prices"),
        ("house-model", 3.0, "prices"),
        ("mystery-1", None, "unknown_model"),
    ]
    # The models of a batch reach the price list just after its spans.
    wait_until(
        lambda: (
            rows(priced, "SELECT Model, CostUsd, CostSource FROM model_calls ORDER BY Model")
            == expected
        ),
        timeout=60,
    )

    ((messages,),) = rows(
        priced, "SELECT InputMessages FROM otel_content WHERE position(InputMessages, 'hi') > 0"
    )
    assert json.loads(messages) == [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]

    wait_until(lambda: priced.metric("tracereel_unpriced_model_calls") == 1, timeout=60)
    # Metrics need no key, so they contain only the count; names are visible to the tenant only.
    statement = "SELECT Model FROM model_calls WHERE CostSource = 'unknown_model' GROUP BY Model"
    named = http("POST", f"{priced.url}/v1/sql", json.dumps({"query": statement}).encode())
    assert named.json()["rows"] == [["mystery-1"]], named.body
    statement = "SELECT Model, CostUsd, CostSource FROM model_calls ORDER BY Model"
    shown = http("POST", f"{priced.url}/v1/sql", json.dumps({"query": statement}).encode())
    assert [tuple(row) for row in shown.json()["rows"]] == expected, shown.body


def test_invalid_price_file_stops_the_start_with_a_reason(new_collector, tmp_path):
    file = tmp_path / "prices.csv"
    file.write_text("model,price\n")
    process = new_collector(environ={"TRACEREEL_PRICE_FILE": str(file)}).start(wait=False)

    assert process.process.wait(timeout=60) != 0
    wait_until(lambda: "expected the columns providers," in "\n".join(process.output))
