"""Store guarantees on a real engine: once per token, data errors separate from outages."""

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.store.conftest import RECEIVED
from tests.support.contract import EXAMPLES, example
from tracereel._runtime.clock import otel_trace_id
from tracereel_collector.errors import StartupError, StoreUnavailableError
from tracereel_collector.model import Kind
from tracereel_collector.store.clickhouse import BadDataError, ClickHouseStore, StoreAddress

LINES = [json.dumps(each).encode() for each in EXAMPLES]


def count(store, table="agent_events"):
    return int(store.rows(f"SELECT count() FROM {table}")[0][0])


def column(store, expression):
    rows = store.rows(f"SELECT {expression} FROM agent_events ORDER BY sequence_number")
    return [row[0] for row in rows]


def test_the_same_token_stores_once_and_another_stores_again(store, queued, token):
    bodies = [queued(b"\n".join(LINES)), queued(LINES[0])]

    for each in (token, token, token + "b"):
        store.insert(Kind.EVENTS, bodies, token=each)

    assert count(store) == 2 * 9


def test_numbers_follow_the_lines_of_a_body(store, queued, token):
    store.insert(Kind.EVENTS, [queued(LINES[0]), queued(b"\n".join(LINES))], token=token)

    assert column(store, "sequence_number") == [str(number) for number in range(1, 10)]


def test_columns_match_the_event(store, queued, token):
    store.insert(Kind.EVENTS, [queued(b"\n".join(LINES))], token=token)

    assert column(store, "event_id") == [each["event_id"] for each in EXAMPLES]
    assert column(store, "agent_name")[:2] == ["parsing_agent", "parsing_agent"]
    assert column(store, "agent_name")[5] == ""
    assert column(store, "status")[1:3] == ["success", "failed"]
    assert column(store, "duration_ms")[1:4] == ["1850", "30000", "150"]
    assert column(store, "confidence")[0] == r"\N"
    assert column(store, "llm_cost_usd")[1] == "0.00042"
    assert column(store, "toString(ingested_at)")[0].startswith("2026-01-23 10:00:00")
    stored = store.select(
        "SELECT payload FROM agent_events ORDER BY sequence_number", {}, fmt="JSONCompactEachRow"
    )
    assert [json.loads(line)[0].encode() for line in stored.splitlines()] == LINES


@pytest.mark.parametrize(
    "trace_id", ["trc_main_abc123", "A" * 32, "0af7651916cd43dd8448eb211c80319c", "ñ"[:0] + "x"]
)
def test_the_trace_id_of_opentelemetry_is_the_same_in_python_and_in_sql(
    store, queued, trace_id, token
):
    line = json.dumps({**EXAMPLES[0], "trace_id": trace_id}).encode()

    store.insert(Kind.EVENTS, [queued(line)], token=token)

    assert column(store, "otel_trace_id") == [otel_trace_id(trace_id)]


@pytest.mark.parametrize(
    ("timestamp", "nanoseconds"),
    [
        ("2026-01-23T10:00:00Z", 1769162400000000000),
        ("2026-01-23T10:00:00", 1769162400000000000),
        ("2026-01-23t10:00:00z", 1769162400000000000),
        ("2026-01-23T15:30:00.25+05:30", 1769162400250000000),
        ("2026-01-23 10:00:00.123456789Z", 1769162400123456789),
        ("1970-01-01T00:00:00Z", 0),
        ("2261-12-31T23:59:59Z", 9214646399000000000),
    ],
)
def test_a_timestamp_is_the_moment_it_names_and_the_clock_where_none_is_given(
    store, queued, timestamp, nanoseconds, token
):
    line = json.dumps({**EXAMPLES[0], "timestamp": timestamp}).encode()

    store.insert(Kind.EVENTS, [queued(line)], token=token)

    assert column(store, "toUnixTimestamp64Nano(timestamp)") == [str(nanoseconds)]
    assert column(store, "hlc") == [str(nanoseconds)]


def test_a_hybrid_clock_is_kept_as_given(store, queued, token):
    clock = RECEIVED + 12_345
    line = json.dumps({**EXAMPLES[0], "hlc": f"{clock:016x}"}).encode()

    store.insert(Kind.EVENTS, [queued(line)], token=token)

    assert column(store, "hlc") == [str(clock)]


def test_hybrid_clock_far_ahead_of_arrival_is_ignored(store, queued, token):
    line = json.dumps({**EXAMPLES[0], "hlc": "f" * 16}).encode()

    store.insert(Kind.EVENTS, [queued(line)], token=token)

    assert column(store, "hlc") == ["1769162400000000000"]


def test_a_corrupt_span_body_is_bad_data_and_stores_nothing(store, queued, token):
    good = ExportTraceServiceRequest()
    good.resource_spans.add().scope_spans.add().spans.add(name="good", trace_id=b"1" * 16)
    bodies = [
        queued(good.SerializeToString(), records=1, kind=Kind.SPANS),
        queued(b"\x0a\xff\xff\xff\xff garbage", records=1, kind=Kind.SPANS),
    ]

    with pytest.raises(BadDataError, match="ClickHouse code"):
        store.insert(Kind.SPANS, bodies, token=token)

    assert count(store, "otel_spans") == 0


def test_a_missing_table_loses_no_data(new_store, queued, token):
    with pytest.raises(StoreUnavailableError, match="code 60"):
        new_store.insert(Kind.EVENTS, [queued(LINES[0])], token=token)


def test_unreachable_store_raises_store_unavailable_error():
    address = StoreAddress.parse("clickhouse://user:word@127.0.0.1:9/db")
    away = ClickHouseStore(address, query_seconds=1, query_memory_bytes=1 << 20)

    assert not away.ping()
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        away.command("SELECT 1")


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("clickhouse://u:p%40ss@host:9000/d", ("host", 9000, "u", "p@ss", "d", False)),
        ("clickhouses://host", ("host", 8443, "default", "", "tracereel", True)),
    ],
)
def test_a_dsn_is_read(dsn, expected):
    address = StoreAddress.parse(dsn)

    assert expected == (
        address.host,
        address.port,
        address.username,
        address.password,
        address.database,
        address.secure,
    )


@pytest.mark.parametrize("dsn", ["clickhouse://", "clickhouse://host:many/db"])
def test_invalid_dsn_is_an_error(dsn):
    with pytest.raises(StartupError):
        StoreAddress.parse(dsn)


def test_decisions_without_a_duration_have_none(store, queued, token):
    decision = {**example("agent.decision.recorded"), "decision_duration_ms": None}

    store.insert(Kind.EVENTS, [queued(json.dumps(decision).encode())], token=token)

    assert column(store, "duration_ms") == [r"\N"]
