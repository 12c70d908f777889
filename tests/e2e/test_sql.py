"""SQL endpoint: accepted statements, client compatibility, and tenant isolation."""

import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import clickhouse_connect
import pytest

from tests.support.sql_attacks import ATTEMPTS, FUNCTIONS, ORACLES, REFUSED, SOURCES
from tests.support.two_tenants import Site

SECRET = "what-bravo-alone-knows"
JAVASCRIPT = Path(__file__).parent.parent / "support" / "javascript"
OWN = "what-alpha-knows"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("sql"), environ={"TRACEREEL_QUERY_SECONDS": "4"})
    for tenant, text in (("alpha", OWN), ("bravo", SECRET)):
        made.send(
            {"event_id": f"{tenant}s", "trace_id": f"trc-{tenant}", "reasoning": text}
            | {"emitter_id": f"emt-{tenant}-{text}", "emitter_seq": 1, "service": text}
            | {"llm_model": text},
            tenant=tenant,
        )
        otel = tenant.encode().ljust(16, b"_")
        model = {"gen_ai__request__model": text, "gen_ai__operation__name": "chat"}
        made.send_spans(otel, text, tenant=tenant, **model)
        made.send_log(otel, text, tenant=tenant)
        score = {"trace_id": f"trc-{tenant}", "name": "tracereel", "comment": text, "value": 1}
        assert (
            made.ask("POST", "/v1/scores?wait=stored&timeout=60", score, tenant=tenant).status
            == 200
        )
    made.settle()
    # Rows of both tenants in one part, where a condition evaluated first would reach both.
    engine = made.engine()
    for (name,) in engine.query(
        "SELECT name FROM system.tables WHERE database = 'tracereel' AND engine LIKE '%MergeTree'"
    ).result_rows:
        engine.command(f"OPTIMIZE TABLE {name} FINAL")
    engine.close()
    yield made
    made.collector.stop()


@pytest.fixture(scope="module")
def tables(site):
    """Readable tables with their tenant column and text columns."""
    names = [row[0] for row in site.sql("SHOW TABLES").json()["rows"]]
    found = {}
    for name in names:
        columns = {row[0]: row[1] for row in site.sql(f"DESCRIBE TABLE {name}").json()["rows"]}
        column = next(iter(columns.keys() & {"tenant", "TenantId"}), None)
        texts = [f"`{each}`" for each in columns if "String" in columns[each] and each != column]
        if column:
            found[name] = (column, f"position(toString(({', '.join(texts)}, '')), 'bravo')")
    return found


def test_a_question_is_answered_as_json(site):
    answer = site.sql(
        "SELECT event_id, tenant, toUInt64(18446744073709551615) AS large FROM agent_events"
        " WHERE event_id = {id:String}",
        id="alphas",
    )

    assert answer.status == 200
    said = answer.json()
    assert [column["name"] for column in said["columns"]] == ["event_id", "tenant", "large"]
    assert said["columns"][2]["type"] == "UInt64"
    assert said["rows"] == [["alphas", "alpha", 18446744073709551615]]
    assert (said["row_count"], said["limit_reached"]) == (1, False)


def test_unsupported_statement_error_lists_the_supported_ones(site):
    answer = site.sql("SELEC 1")

    assert answer.status == 400
    assert "'SELEC'; accepted are SELECT, WITH, EXPLAIN, SHOW" in answer.json()["error"]["message"]


def test_the_statement_may_be_the_body_itself(site):
    answer = site.ask("POST", "/v1/sql", b"SELECT 1 AS one;", **{"Content-Type": "text/plain"})

    assert answer.json()["rows"] == [[1]]


@pytest.mark.parametrize(
    ("query", "accept", "kind", "body"),
    [
        ("?format=csv", None, "text/csv", b'"a","b"\n1,"x"\n'),
        ("", "text/csv", "text/csv", b'"a","b"\n1,"x"\n'),
        ("?format=ndjson", None, "application/x-ndjson", b'{"a":1,"b":"x"}\n'),
        ("", "application/x-ndjson;q=1", "application/x-ndjson", b'{"a":1,"b":"x"}\n'),
    ],
)
def test_other_forms_by_parameter_or_accept(site, query, accept, kind, body):
    headers = {"accept": accept} if accept else {}
    answer = site.ask("POST", f"/v1/sql{query}", b"SELECT 1 AS a, 'x' AS b", **headers)

    assert answer.headers["content-type"].startswith(kind)
    assert answer.body == body


def test_row_limit_is_applied_and_reported(site):
    statement = b"SELECT arrayJoin(range(5000)) AS n ORDER BY n"

    usual = site.ask("POST", "/v1/sql", statement).json()
    few = site.ask("POST", "/v1/sql?limit=3", statement).json()

    assert (usual["row_count"], usual["limit_reached"]) == (1000, True)
    assert few["rows"] == [[0], [1], [2]]
    assert few["limit_reached"] is True
    assert site.ask("POST", "/v1/sql?limit=1000000", statement).status == 400


def test_clauses_people_use_pass(site):
    for statement in (
        "WITH e AS (SELECT * FROM agent_events) SELECT count() FROM e",
        (
            "SELECT agent_name, quantilesTDigestIf(0.5, 0.9)(duration_ms, status = 'success'),"
            " countIf(status = 'failed'), avg(confidence) FROM agent_events GROUP BY agent_name"
            " WITH TOTALS HAVING count() > 0 ORDER BY 1 LIMIT 5"
        ),
        (
            "SELECT a.event_id, s.SpanName FROM agent_events a LEFT JOIN otel_traces s"
            " ON s.TraceId = a.otel_trace_id"
        ),
        "SELECT event_id, row_number() OVER (PARTITION BY trace_id ORDER BY timestamp) FROM agent_events",
        "SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 3",
        (
            "SELECT toStartOfInterval(timestamp, INTERVAL 1 HOUR) AS t, count() FROM agent_events"
            " WHERE timestamp BETWEEN now() - INTERVAL 30 YEAR AND now() + INTERVAL 1 DAY"
            " GROUP BY t ORDER BY t WITH FILL STEP INTERVAL 1 HOUR"
        ),
        "SELECT JSONExtractString(payload, 'reasoning') AS r, r ILIKE '%alpha%' FROM agent_events",
        "SELECT * EXCEPT (payload) REPLACE (upper(event_id) AS event_id) FROM agent_events",
        "SELECT DISTINCT arrayJoin(mapKeys(SpanAttributes)) FROM otel_traces",
        "SELECT CASE WHEN 1 THEN 'a' ELSE 'b' END, x -> x + 1, [1,2][1], (1,'a').2, '1'::UInt8",
        "EXPLAIN SYNTAX SELECT count() FROM agent_events",
        "EXPLAIN QUERY TREE SELECT count() FROM agent_events",
        "SELECT name, value FROM system.settings WHERE name = 'readonly'",
        "SELECT table, name, type FROM system.columns WHERE table = 'agent_events'",
        "SHOW TABLES FROM tracereel LIKE 'otel%'",
        "EXISTS TABLE agent_events",
        "SELECT * FROM scores",
    ):
        answer = site.sql(statement)
        known = "x -> x + 1" in statement  # a function is not a value: the engine's own error
        assert answer.status == (400 if known else 200), (statement, answer.body)


def test_statements_other_than_tenant_reads_are_refused(site):
    for statement in REFUSED:
        answer = site.sql(statement)
        assert answer.status in (400, 403), (statement, answer.body)
        assert answer.json()["error"]["code"] in ("sql_refused", "sql_failed", "bad_request")
        over = site.ask("POST", "/clickhouse", statement.encode())
        assert over.status in (400, 403), (statement, over.body)


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029"], ids=ascii)
def test_a_name_cannot_pose_as_a_part_of_the_statement(site, end):
    """As a separate node, the end of this name would be looked up in the table."""
    name = f"`n{end}      Literal y`"

    answer = site.sql(f"WITH 1 AS {name} SELECT {name} IN schema_migrations")

    assert answer.status == 403, answer.body
    assert answer.json()["error"]["code"] == "sql_refused"


def test_no_table_function_is_called_and_nothing_is_connected_to(site):
    """At every position of a statement; the listening server receives nothing."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = str(server.getsockname()[1])
        stop = threading.Event()

        def listen():
            while not stop.is_set():
                try:
                    heard.append(server.accept()[1])
                except TimeoutError:
                    continue

        listener = threading.Thread(target=listen)
        listener.start()
        for function, place in itertools.product(
            FUNCTIONS,
            (
                "SELECT * FROM {}",
                "SELECT 1 WHERE 1 IN (SELECT * FROM {})",
                "WITH x AS (SELECT * FROM {} AS f) SELECT * FROM x",
                "SELECT * FROM agent_events AS a JOIN {} AS b ON 1 = 1",
            ),
        ):
            statement = place.format(function.replace("PORT", port))
            answer = site.sql(statement)
            assert answer.status in (400, 403), (statement, answer.body)
            assert "root:" not in answer.body.decode()
        stop.set()
        listener.join()
    assert heard == []


def attempts_at(table, attempts):
    """All attempts at the base tables, every fifth at the others."""
    whole = table in ("agent_events", "otel_spans", "otel_logs", "scores", "score_tellings")
    shift = len(table) % 5
    return [
        (number, attempt) for number, attempt in enumerate(attempts) if whole or number % 5 == shift
    ]


def test_no_statement_shows_rows_of_other_tenants(site, tables):
    """Every table, by every path, in every form: no data of bravo."""
    assert {"agent_events", "otel_spans", "otel_traces", "otel_logs", "scores"} <= set(tables)
    answered = 0
    for name, (column, _) in tables.items():
        for number, attempt in attempts_at(name, ATTEMPTS):
            sources = [SOURCES[number % len(SOURCES)]]
            if name == "agent_events":
                sources += [SOURCES[(number + step) % len(SOURCES)] for step in (2, 3)]
            for source in sources:
                statement = attempt.format(s=source.format(t=name), t=name, c=column)
                answer = site.sql(statement)
                assert SECRET not in answer.body.decode(), statement
                assert answer.status in (200, 400, 403), (statement, answer.body)
                if answer.status == 200 and not statement.startswith("EXPLAIN"):
                    answered += 1
                    assert '"bravo"' not in answer.body.decode().replace(" ", ""), statement
    assert answered > 100


def test_errors_reveal_no_rows_of_other_tenants(site, tables):
    """A condition that fails on bravo's rows never reaches one."""
    answered = 0
    for name, (column, found) in tables.items():
        oracle = f"intDiv(1, toUInt8({found} = 0))"
        for number, attempt in attempts_at(name, ORACLES):
            sources = SOURCES[:4:2] if name == "agent_events" else [SOURCES[number % 4]]
            for source in sources:
                statement = attempt.format(s=source.format(t=name), c=column, o=oracle)
                answer = site.sql(statement)
                assert answer.status in (200, 403), (statement, answer.body)
                answered += answer.status == 200
    assert answered > 80


def test_isolation_attacks_succeed_without_tenant_settings(site, tables):
    """Proves that the attempts above are real: on the engine itself they succeed or fail."""
    engine = site.engine()
    settings = {"max_threads": 1}
    shown = engine.raw_query("SELECT * FROM agent_events", settings=settings).decode()
    assert SECRET in shown
    filters = {"additional_table_filters": "{'tracereel.agent_events': 'tenant = \\'alpha\\''}"}
    failed = 0
    for attempt in ORACLES:
        oracle = f"intDiv(1, toUInt8({tables['agent_events'][1]} = 0))"
        statement = attempt.format(s="agent_events", c="tenant", o=oracle)
        try:
            engine.raw_query(statement, settings=filters)
        except clickhouse_connect.driver.exceptions.DatabaseError:
            failed += 1
    engine.close()
    assert failed >= 3  # a filter alone, where the engine may move conditions before it


@pytest.mark.parametrize(
    "statement",
    [
        (
            "SELECT count() FROM (SELECT arrayJoin(range(100000)) AS x) AS a,"
            " (SELECT arrayJoin(range(100000)) AS y) AS b WHERE x * y % 7 = 0"
        ),
        "SELECT length(arrayMap(x -> repeat('x', 100000), range(100000)))",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
        "SELECT " + "(" * 2000 + "1" + ")" * 2000,
        "SELECT repeat('x', 1000000) FROM (SELECT arrayJoin(range(200)))",
        "SELECT '" + "x" * 300_000 + "'",
    ],
    ids=["time", "memory", "recursion", "depth", "bytes", "length"],
)
def test_sql_limits_hold_and_the_store_keeps_working(site, statement):
    answer = site.ask("POST", "/v1/sql?limit=100000", statement.encode())

    assert answer.status == 400, answer.body[:300]
    assert site.sql("SELECT 1").json()["rows"] == [[1]]


def test_values_in_parameters_are_values(site):
    for value in ("' OR 1=1 --", "\\", "{x:String}", "`", "');DROP TABLE agent_events;--", "ñ\n\0"):
        answer = site.sql(
            "SELECT {v:String} AS v, count() FROM agent_events WHERE event_id = v", v=value
        )
        assert answer.json()["rows"] == [[value, 0]]
    listed = ["it's", "\\", "plain", "a\tb"]
    answer = site.sql(
        "SELECT {v:Array(String)} AS v, {n:Array(UInt8)}, {b:Bool}", v=listed, n=[1], b=True
    )
    assert answer.json()["rows"] == [[listed, [1], True]]


def test_clickhouse_connect_reads_the_store(site):
    """With only the address and a key: at the port itself, and at the path."""
    port = int(site.url.rsplit(":", 1)[1])
    for options in ({}, {"proxy_path": "/clickhouse"}):
        client = clickhouse_connect.get_client(
            host="127.0.0.1", port=port, username="default", password=site.keys["alpha"], **options
        )
        found = client.query(
            "SELECT event_id, tenant, timestamp FROM agent_events WHERE event_id = {id:String}",
            parameters={"id": "alphas"},
        )
        assert found.result_rows[0][:2] == ("alphas", "alpha")
        assert client.query_arrow("SELECT count() AS n FROM otel_traces").to_pylist() == [{"n": 1}]
        assert client.command("SELECT 1", settings={"max_execution_time": 3}) == 1
        with client.query_row_block_stream("SELECT arrayJoin(range(200000)) AS n") as stream:
            assert sum(len(block) for block in stream) == 200_000
        with pytest.raises(clickhouse_connect.driver.exceptions.DatabaseError) as refused:
            client.command("DROP TABLE agent_events")
        assert refused.value.code == 497
        with pytest.raises(clickhouse_connect.driver.exceptions.DatabaseError) as written:
            client.command("INSERT INTO agent_events VALUES (1)")
        assert "this statement is refused; accepted are SELECT" in str(written.value)
        client.close()


def test_the_client_from_npm_reads_the_store(site, tmp_path):
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not installed")
    shutil.copy(JAVASCRIPT / "query.mjs", tmp_path)
    wanted = json.loads((JAVASCRIPT / "package.json").read_text())["dependencies"]
    package = {"private": True, "dependencies": {k: wanted[k] for k in ["@clickhouse/client"]}}
    (tmp_path / "package.json").write_text(json.dumps(package))
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--no-package-lock"]
    installed = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=180
    )
    if installed.returncode:
        pytest.skip(f"npm cannot install the client: {installed.stderr[-200:]}")
    for pathname in ("/", "/clickhouse"):
        told = subprocess.run(
            ["node", "query.mjs", site.url, pathname, site.keys["alpha"]],
            cwd=tmp_path,
            env=os.environ,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert json.loads(told.stdout) == {
            "ping": True,
            "bound": [{"event_id": "alphas", "tenant": "alpha"}],
            "streamed": [{"event_id": "alphas"}],
            "dropped": "497 ACCESS_DENIED",
            "reached": "497 ACCESS_DENIED",
        }


def test_queries_of_grafanas_plugin_work(site):
    """Its handshake, its lists of databases, tables and columns, and results in Native format."""
    for statement in (
        "SELECT displayName(), version(), revision(), timezone()",
        "SHOW DATABASES",
        'SHOW TABLES FROM "tracereel"',
        'DESC TABLE "tracereel"."otel_traces"',
        "SELECT timezone()",
        "SELECT DISTINCT arrayJoin(SpanAttributes.keys) AS keys FROM tracereel.otel_traces LIMIT 1000",
        (
            "SELECT Timestamp AS time, Body AS body, SeverityText AS level FROM tracereel.otel_logs"
            " WHERE (time >= fromUnixTimestamp64Milli(0)) ORDER BY time DESC LIMIT 100"
        ),
    ):
        answer = site.ask(
            "POST",
            "/clickhouse?default_format=Native&max_execution_time=60&enable_http_compression=1"
            "&client_protocol_version=54460",
            statement.encode(),
            tenant=None,
            **{"X-ClickHouse-User": "default", "X-ClickHouse-Key": site.keys["alpha"]},
            **{"Accept-Encoding": "gzip"},
        )
        assert answer.status == 200, (statement, answer.body)
        assert answer.headers["x-clickhouse-format"] == "Native"


def test_clickhouse_errors_keep_their_codes(site):
    wrong = site.ask("POST", "/clickhouse", b"SELECT 1", tenant=None)
    unknown = site.ask("POST", "/clickhouse", b"SELECT nothing")
    setting = site.ask("POST", "/clickhouse?optimize_move_to_prewhere=1", b"SELECT 1")

    assert (wrong.status, wrong.headers["x-clickhouse-exception-code"]) == (401, "516")
    assert unknown.headers["x-clickhouse-exception-code"] == "47"
    assert unknown.body.startswith(b"Code: 47. DB::Exception: ")
    assert setting.headers["x-clickhouse-exception-code"] == "164"
    assert "read_rows" not in json.dumps(unknown.headers)


def test_key_without_read_scope_cannot_query(site):
    made = site.ask("POST", "/v1/keys", {"scopes": "write", "name": "w"}).json()["key"]
    for path in ("/v1/sql", "/clickhouse", "/"):
        assert site.ask("POST", path, b"SELECT 1", tenant=None, **{"x-api-key": made}).status == 403
    for header in ("X-ClickHouse-Key",):
        answer = site.ask("POST", "/clickhouse", b"SELECT 1", tenant=None, **{header: made})
        assert answer.status == 403


def test_row_counts_of_other_tenants_are_not_returned(site):
    answer = site.ask(
        "POST", "/clickhouse?default_format=JSON", b"SELECT count() FROM agent_events"
    )

    assert not re.search(rb"rows_read|bytes_read|statistics", answer.body)
    assert "x-clickhouse-summary" not in {name.lower() for name in answer.headers}
