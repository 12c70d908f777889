"""ClickHouse's HTTP interface as used by clickhouse-connect and plain HTTP clients."""

import gzip
import json
import struct
import threading
from typing import Any
from urllib.parse import quote

import lz4.frame
import pytest
from backports import zstd
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from tests.collector.engine.conftest import Connect, Http
from tracereel_collector.engine import Supervisor
from tracereel_collector.engine.refusals import INNER_FUNCTIONS

ROWS = [[1, "one"], [2, "two; DROP TABLE x"], [3, "drei\n\nDROP TABLE x"]]


@pytest.fixture
def table(client: Any) -> str:
    client.command("DROP TABLE IF EXISTS t")
    client.command(
        "CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    return "t"


def code_of(call: Any) -> int | None:
    with pytest.raises(DatabaseError) as failed:
        call()
    code: int | None = failed.value.code
    return code


def row_binary(rows: list[list[Any]]) -> bytes:
    return b"".join(
        struct.pack("<Q", a) + bytes([len(text.encode())]) + text.encode() for a, text in rows
    )


def test_handshake_command_query_and_ping(client: Any) -> None:
    assert client.ping()
    assert client.server_version.startswith("26.")
    assert client.command("SELECT 1") == 1
    assert client.command("SELECT currentDatabase()") == "tracereel"
    result = client.query("SELECT number AS n, toString(number) AS s FROM numbers(3)")
    assert result.column_names == ("n", "s")
    assert result.result_rows == [(0, "0"), (1, "1"), (2, "2")]
    assert client.query("SELECT number FROM numbers(0)").result_rows == []
    assert client.raw_query("SELECT 1 AS x", fmt="JSONEachRow") == b'{"x":1}\n'


def test_insert_rows_with_a_cached_context(client: Any, table: str) -> None:
    context = client.create_insert_context(table, column_names=["a", "s"])
    for row in ROWS:
        context.data = [row]
        assert client.insert(context=context).written_rows == 1
    assert client.query("SELECT * FROM t ORDER BY a").result_rows == [tuple(row) for row in ROWS]


@pytest.mark.parametrize(
    ("fmt", "block"),
    [
        ("RowBinary", row_binary(ROWS)),
        ("JSONEachRow", "\n".join(json.dumps({"a": a, "s": s}) for a, s in ROWS).encode()),
        ("CSV", b'1,one\n2,"two; DROP TABLE x"\n3,"drei\n\nDROP TABLE x"\n'),
    ],
)
@pytest.mark.parametrize("compression", [None, "gzip", "lz4", "zstd"])
def test_raw_insert(
    client: Any, table: str, fmt: str, block: bytes, compression: str | None
) -> None:
    pack = {None: bytes, "gzip": gzip.compress, "lz4": lz4.frame.compress, "zstd": zstd.compress}
    # Two frames: the second must not be lost.
    half = len(block) // 2
    sent = pack[compression](block[:half]) + pack[compression](block[half:])
    client.raw_insert(
        table, column_names=["a", "s"], insert_block=sent, fmt=fmt, compression=compression
    )
    assert client.query("SELECT * FROM t ORDER BY a").result_rows == [tuple(row) for row in ROWS]


def test_raw_insert_native_from_a_generator_is_chunked(client: Any, table: str) -> None:
    block = client.raw_query("SELECT toUInt64(7) AS a, 'x' AS s", fmt="Native")
    client.raw_insert(table, insert_block=(piece for piece in (block[:5], block[5:])), fmt="Native")
    assert client.query("SELECT * FROM t").result_rows == [(7, "x")]


@pytest.mark.parametrize("compress", [False, "gzip", "lz4", "zstd"])
def test_large_results_and_inserts_with_every_compression(
    connect: Connect, table: str, compress: Any
) -> None:
    client = connect(compress=compress)
    rows = [[number, "text" * 20] for number in range(60_000)]
    client.insert(table, rows, column_names=["a", "s"])
    assert client.query("SELECT sum(a), count() FROM t").result_rows == [(1_799_970_000, 60_000)]
    assert len(client.query("SELECT * FROM t").result_rows) == 60_000
    with client.query_row_block_stream("SELECT a FROM t ORDER BY a") as stream:
        assert sum(row[0] for block in stream for row in block) == 1_799_970_000


def test_streams(client: Any) -> None:
    with client.raw_stream("SELECT number FROM numbers(300000)", fmt="TabSeparated") as stream:
        assert stream.read().count(b"\n") == 300_000
    with client.query_rows_stream("SELECT number FROM numbers(300000)") as rows:
        assert sum(1 for _ in rows) == 300_000


def test_a_failure_in_the_middle_of_a_stream_is_a_failure(client: Any, http_call: Http) -> None:
    sql = "SELECT throwIf(number = 900000) FROM numbers(1000000) SETTINGS max_threads = 1"
    failed = pytest.raises((DatabaseError, OperationalError), match="throwIf")
    with failed, client.query_rows_stream(sql) as rows:
        assert sum(1 for _ in rows) == "never reached"
    assert client.command("SELECT 2") == 2


@pytest.mark.parametrize("form", [False, True])
def test_parameters_in_url_and_form(connect: Connect, form: bool) -> None:
    client = connect(form_encode_query_params=form)
    values = {"n": 7, "s": "a'b\\c\n\t; DROP TABLE t -- ü", "l": [1, 2], "t": "numbers"}
    result = client.query("SELECT {n:UInt8}, {s:String}, {l:Array(UInt8)}", parameters=values)
    assert result.result_rows == [(7, values["s"], [1, 2])]
    result = client.query("SELECT 1 FROM system.{t:Identifier} LIMIT 1", parameters=values)
    assert result.result_rows == [(1,)]


def test_urlencoded_form_and_identifier_in_an_insert(http_call: Http, table: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    status, _, body = http_call("POST", "/", "query=SELECT+%7Bx%3AUInt8%7D&param_x=5", headers=form)
    assert (status, body) == (200, b"5\n")
    assert http_call("POST", "/", "SELECT 6", headers=form)[2] == b"6\n"
    target = "/?query=INSERT+INTO+%7Bt:Identifier%7D+FORMAT+CSV&param_t=t"
    assert http_call("POST", target, "1,a\n")[0] == 200
    assert http_call("POST", "/", "SELECT count() FROM t")[2] == b"1\n"


def test_settings_apply_to_one_request_only(client: Any, connect: Connect) -> None:
    show = "SELECT getSetting('max_block_size'), getSetting('log_comment')"
    before = client.query(show).result_rows
    asked = {"max_block_size": 1234, "log_comment": "mine"}
    assert client.query(show, settings=asked).result_rows == [(1234, "mine")]
    assert client.query(show).result_rows == before
    # A failing statement leaves no setting behind either.
    assert code_of(lambda: client.query("SELECT nope", settings=asked)) == 47
    for _ in range(20):
        assert connect().query(show).result_rows == before


def test_readonly_setting_applies_to_one_request_only(client: Any, table: str) -> None:
    for level in (1, 2):
        write = {"readonly": level}
        call = lambda: client.command("INSERT INTO t SELECT 1, 'x'", settings=write)  # noqa: B023, E731
        assert code_of(call) == 164
        assert client.query("SELECT 1", settings=write).result_rows == [(1,)]
        client.command("INSERT INTO t SELECT 1, 'x'")
    assert client.command("SELECT count() FROM t") == 2


def test_get_is_read_only(http_call: Http, table: str) -> None:
    assert http_call("GET", "/?query=SELECT+1")[2] == b"1\n"
    status, headers, _ = http_call("GET", "/?query=INSERT+INTO+t+SELECT+1,'x'")
    assert (status, headers["x-clickhouse-exception-code"]) == (403, "164")


@pytest.mark.parametrize("level", ["0", "00", "+0", "0x0", "", "3"])
def test_get_cannot_turn_read_only_off(http_call: Http, table: str, level: str) -> None:
    insert = f"/?readonly={quote(level)}&query=INSERT+INTO+t+SELECT+1,'x'"
    status, _, _ = http_call("GET", insert)
    assert status >= 400
    assert http_call("GET", "/?query=SELECT+count()+FROM+t")[2] == b"0\n"


def test_database_parameter(client: Any, connect: Connect) -> None:
    client.command("CREATE DATABASE IF NOT EXISTS other ENGINE = Atomic")
    other = connect(database="other")
    assert other.command("SELECT currentDatabase()") == "other"
    assert client.command("SELECT currentDatabase()") == "tracereel"
    assert connect(database="default").command("SELECT currentDatabase()") == "tracereel"
    assert code_of(lambda: connect(database="missing").command("SELECT 1")) == 81


def test_inline_values(client: Any, table: str) -> None:
    client.command("INSERT INTO t VALUES (1, 'a;b'), (2, concat('x', 'y'));")
    assert client.query("SELECT s FROM t ORDER BY a").result_rows == [("a;b",), ("xy",)]
    assert code_of(lambda: client.command("INSERT INTO t VALUES (1, 'a'); DROP TABLE t")) == 62
    assert code_of(lambda: client.command("INSERT INTO t VALUES (1, file('/etc/hosts'))")) == 497


@pytest.mark.parametrize(
    ("sql", "code", "status"),
    [
        ("SELECT", 62, 400),
        ("SELECT nope", 47, 404),
        ("SELECT * FROM nope", 60, 404),
        ("SELECT 1 SETTINGS nope = 1", 115, 404),
        ("SELECT 1 FORMAT Nope", 73, 404),
        ("SELECT sleep(3) SETTINGS max_execution_time = 0.1", 159, 408),
        ("SELECT groupArray(number) FROM numbers(9e6) SETTINGS max_memory_usage = 5e6", 241, 500),
        ("SELECT 1; DROP TABLE t", 62, 400),
        ("SELECT * FROM file('/etc/hosts')", 497, 403),
        ("SELECT * FROM url('http://127.0.0.1:1/')", 497, 403),
        ("SELECT * FROM default.`/etc/hosts`", 497, 403),
        ("SELECT * FROM '/etc/hosts'", 60, 404),
        ("SELECT * FROM `/etc/hosts`", 60, 404),
        ("SELECT * FROM `default./etc/hosts`", 60, 404),
        ("INSERT INTO t FORMAT JSONEachRow\n{broken", 26, 400),
    ],
)
def test_failures_carry_clickhouse_codes(
    http_call: Http, client: Any, table: str, sql: str, code: int, status: int
) -> None:
    got, headers, body = http_call("POST", "/", sql)
    assert (headers.get("x-clickhouse-exception-code"), got) == (str(code), status), body
    assert body.startswith(b"Code: ")
    assert client.command("EXISTS TABLE t") == 1


def test_names_of_parameters_settings_and_formats_are_not_sql(http_call: Http, table: str) -> None:
    insert = "/?query=INSERT+INTO+t+FORMAT+CSV"
    for target, code in (
        (f"{insert}&param_x%3D1%3BDROP+TABLE+t%3B--=1", "36"),
        (f"{insert}&max_threads%3D1%3BDROP+TABLE+t%3B--=1", "115"),
        ("/?default_format=CSV%3BDROP+TABLE+t", "73"),
        ("/?default_format=dataframe", "73"),
    ):
        _, headers, _ = http_call("POST", target, "1,a\n" if "INSERT" in target else "SELECT 1")
        assert headers["x-clickhouse-exception-code"] == code
    assert http_call("POST", "/", "EXISTS TABLE t")[2] == b"1\n"


def test_summary_and_headers(http_call: Http, table: str) -> None:
    status, headers, _ = http_call("POST", "/?query=INSERT+INTO+t+FORMAT+CSV", "1,a\n2,b\n")
    assert status == 200
    assert json.loads(headers["x-clickhouse-summary"])["written_rows"] == "2"
    _, headers, body = http_call("POST", "/?query_id=abc&default_format=JSONEachRow", "SELECT 1 x")
    assert (headers["x-clickhouse-query-id"], body) == ("abc", b'{"x":1}\n')
    assert headers["x-clickhouse-format"] == "JSONEachRow"


def test_queries_require_the_secret(engine: Supervisor, http_call: Http) -> None:
    for secret in ("", "wrong", engine.secret + "x"):
        status, headers, _ = http_call("POST", "/", "SELECT 1", secret=secret)
        assert (status, headers["x-clickhouse-exception-code"]) == (401, "516")
    target = f"/?user=x&password={engine.secret}"
    assert http_call("POST", target, "SELECT 1", secret="")[0] == 200
    assert http_call("GET", "/ping", secret="")[2] == b"Ok.\n"
    assert http_call("GET", "/health")[2] == b"Ok.\n"
    assert http_call("GET", "/health", secret="")[0] == 401


def test_a_wrong_secret_fails_the_handshake(connect: Connect) -> None:
    assert code_of(lambda: connect(password="wrong")) == 516


def test_bodies_over_the_limit_are_413(http_call: Http, table: str) -> None:
    insert = "/?query=INSERT+INTO+t+FORMAT+CSV"
    big = b"1,a\n" * (7 * 1024 * 1024)
    status, headers, body = http_call("POST", insert, big)
    assert (status, headers["x-clickhouse-exception-code"]) == (413, "223")
    assert b"25165824" in body
    # Small when compressed, large when decompressed.
    status, _, _ = http_call(
        "POST", insert, gzip.compress(big, 1), headers={"Content-Encoding": "gzip"}
    )
    assert status == 413
    # An iterator is sent chunked, so there is no Content-Length.
    status, _, _ = http_call("POST", insert, iter([big]))
    assert status == 413
    assert http_call("POST", "/", "SELECT count() FROM t")[2] == b"0\n"


def test_large_body_is_buffered_in_a_file(client: Any, table: str) -> None:
    count = 1_100_000
    block = struct.pack("<Q", 5) + b"\x0b" + b"hello there"
    client.raw_insert(table, insert_block=block * count, fmt="RowBinary")
    assert client.command("SELECT count() FROM t") == count


@pytest.mark.parametrize("encoding", ["gzip", "lz4", "zstd"])
def test_damaged_compression_is_refused_and_stores_nothing(
    http_call: Http, table: str, encoding: str
) -> None:
    pack = {"gzip": gzip.compress, "lz4": lz4.frame.compress, "zstd": zstd.compress}[encoding]
    whole = pack(b"1,abcdefgh\n" * 1000)
    for damaged in (whole[:-9], b"rubbish" + whole):
        status, headers, _ = http_call(
            "POST",
            "/?query=INSERT+INTO+t+FORMAT+CSV",
            damaged,
            headers={"Content-Encoding": encoding},
        )
        assert (status, headers["x-clickhouse-exception-code"]) == (400, "271")
    assert http_call("POST", "/", "SELECT count() FROM t")[2] == b"0\n"


def test_unsupported_encoding_error_lists_the_accepted_ones(http_call: Http) -> None:
    status, _, body = http_call("POST", "/", "x", headers={"Content-Encoding": "br"})
    assert status == 501
    assert b"gzip, deflate, lz4, zstd" in body


def test_eight_threads_at_once(connect: Connect, table: str) -> None:
    failures: list[BaseException] = []
    clients = [connect() for _ in range(8)]

    def work(number: int) -> None:
        try:
            for step in range(15):
                value = number * 1000 + step
                clients[number].insert("t", [[value, "x"]], column_names=["a", "s"])
                found = clients[number].query(
                    "SELECT count() FROM t WHERE a = {a:UInt64}", parameters={"a": value}
                )
                assert found.result_rows == [(1,)]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert clients[0].command("SELECT count(), uniqExact(a) FROM t") == ["120", "120"]


def test_backups_stay_in_their_directory(client: Any, engine: Supervisor, table: str) -> None:
    client.command("BACKUP TABLE t TO File('first')")
    assert (engine.settings.store_dir / "backups" / "first").exists()
    assert code_of(lambda: client.command("BACKUP TABLE t TO File('/tmp/out')")) == 36
    assert code_of(lambda: client.command("BACKUP TABLE t TO File('../../out')")) == 36


def test_every_table_function_and_engine_is_classified(client: Any) -> None:
    """A new engine version must not add an unclassified way to reach files or the network."""
    known = {
        row[0].lower()
        for row in client.query("SELECT name FROM system.table_functions").result_rows
    }
    for name in sorted(known - INNER_FUNCTIONS):
        assert code_of(lambda n=name: client.command(f"SELECT * FROM {n}('x')")) == 497
