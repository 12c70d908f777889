"""What ClickHouse's clients and Grafana's plugin send beside plain statements."""

from urllib.parse import quote

import pytest

from tests.collector.http.test_clickhouse_blocks import read_back
from tests.support.two_tenants import Site

OWN, SECRET = "what-alpha-knows", "what-bravo-alone-knows"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("clients"), environ={"TRACEREEL_QUERY_SECONDS": "4"})
    for tenant, text in (("alpha", OWN), ("bravo", SECRET)):
        made.send({"event_id": tenant, "trace_id": f"trc-{tenant}"}, tenant=tenant)
        otel = tenant.encode().ljust(16, b"_")
        made.send_spans(otel, text, tenant=tenant, gen_ai__request__model=text)
        made.send_log(otel, text, tenant=tenant)
    made.settle()
    yield made
    made.collector.stop()


def clickhouse(site, statement, *parameters, tenant="alpha"):
    path = "/clickhouse" + (f"?{'&'.join(parameters)}" if parameters else "")
    return site.ask("POST", path, statement.encode(), tenant=tenant)


def test_grafanas_ad_hoc_filters_hold_beside_the_tenant(site):
    """At the end of the statement, as its releases do, and as a setting of its own."""
    counted = "SELECT count() FROM tracereel.otel_traces"
    for wanted, condition in (
        ("1", f"SpanAttributes[\\'gen_ai.request.model\\'] = \\'{OWN}\\' "),
        ("0", f"SpanName = \\'{SECRET}\\' "),
        ("1", f"SpanName = \\'{SECRET}\\' OR SpanName IN (\\'{OWN}\\', \\'y\\') "),
        ("0", "SpanName ILIKE \\'%bravo%\\' OR TenantId = \\'bravo\\'"),
    ):
        value = f"{{'otel_traces' : ' {condition}'}}"
        in_statement = clickhouse(site, f"{counted}\nsettings additional_table_filters={value}")
        beside = clickhouse(site, counted, f"additional_table_filters={quote(value)}")
        assert (in_statement.status, in_statement.body) == (200, f"{wanted}\n".encode()), condition
        assert (beside.status, beside.body) == (200, f"{wanted}\n".encode()), condition


def test_an_ad_hoc_filter_is_no_way_to_other_rows(site):
    for condition in ("1 = 1", "throwIf(TenantId = 'bravo') = 0", "SpanName = 'x') OR (1 = 1"):
        quoted = condition.replace("'", "\\'")
        value = f"{{'otel_traces' : '{quoted}'}}"
        answer = clickhouse(
            site, f"SELECT 1 FROM otel_traces settings additional_table_filters={value}"
        )
        assert answer.status == 400
        assert b"is accepted as {'table': 'filter'}" in answer.body


def test_settings_of_other_clients_are_obeyed_or_passed_over(site):
    """Grafana's row limit, DBeaver's overflow mode, a time limit."""
    limited = clickhouse(
        site, "SELECT number FROM (SELECT arrayJoin(range(9)) AS number)", "limit=3"
    )
    assert limited.body == b"0\n1\n2\n"
    dbeaver = ("result_overflow_mode=break", "max_result_rows=200", "extremes=0")
    assert clickhouse(site, "SELECT 1", *dbeaver[:2]).body == b"1\n"
    seconds = "SELECT value FROM system.settings WHERE name = 'max_execution_time'"
    for sent, obeyed in (("max_execution_time=3", b"3"), ("max_execution_time=99", b"4")):
        assert clickhouse(site, seconds, sent).body == obeyed + b"\n"


def test_tables_are_found_in_the_default_database(site):
    answer = clickhouse(site, 'SELECT count() FROM "default"."otel_traces"', "database=default")

    assert answer.body == b"1\n"
    assert clickhouse(site, "SELECT 1 FROM default.schema_migrations").status in {400, 403}


def test_columns_of_both_schemas_of_opentelemetry_are_there(site):
    """Grafana's schema 1.29 filters logs by `TimestampTime`, 1.30 by `Timestamp`."""
    for column in ("TimestampTime", "Timestamp"):
        answer = clickhouse(
            site,
            f"SELECT Timestamp AS timestamp, Body AS body FROM otel_logs WHERE {column} >="
            f" toDateTime(0) ORDER BY {column} DESC LIMIT 10",
        )
        assert answer.body.endswith(f"\t{OWN}\n".encode())


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("SHOW CREATE TABLE tracereel.otel_traces", b"CREATE"),
        ("SHOW CREATE otel_logs", b"`Body` String"),
        ("SHOW COLUMNS FROM otel_traces", b"SpanName\t"),
        ("SHOW FULL COLUMNS FROM `otel_traces` FROM `tracereel` LIKE 'Span%'", b"SpanName\t"),
        ("EXPLAIN SELECT SpanName FROM otel_traces", b"Expression"),
        ("EXPLAIN PLAN SELECT count() FROM agent_events", b"Aggregating"),
    ],
)
def test_schema_and_plan_of_readable_tables_are_shown(site, statement, part):
    answer = clickhouse(site, statement)

    assert answer.status == 200, answer.body
    assert part in answer.body
    assert b"Parts" not in answer.body
    assert b"Granules" not in answer.body
    assert SECRET.encode() not in answer.body


@pytest.mark.parametrize(
    "statement",
    [
        "SHOW CREATE TABLE schema_migrations",
        "SHOW CREATE TABLE system.parts",
        "SHOW CREATE DATABASE tracereel",
        "SHOW COLUMNS FROM schema_migrations",
        "SHOW COLUMNS FROM parts FROM system",
        "SHOW COLUMNS",
        "EXPLAIN ESTIMATE SELECT 1 FROM agent_events",
        "EXPLAIN indexes = 1 SELECT 1 FROM agent_events",
        "EXPLAIN PIPELINE SELECT 1 FROM agent_events",
        "EXPLAIN SELECT 1 FROM schema_migrations",
    ],
)
def test_schema_and_plan_of_others_are_refused(site, statement):
    assert clickhouse(site, statement).status in {400, 403}


def test_block_compression_of_jdbc_drivers_is_written(site):
    statement = "SELECT arrayJoin(range(100000)) AS n"
    plain = clickhouse(site, statement).body

    packed = clickhouse(site, statement, "compress=1").body

    assert len(packed) < len(plain)
    assert read_back(packed) == plain


@pytest.mark.parametrize("path", ["/clickhouse", "/clickhouse/", "/clickhouse/ping", "/ping"])
def test_head_is_answered(site, path):
    assert site.ask("HEAD", path).status == 200
