"""A failed insert is never reported as done, at whichever stage after the parser it failed."""

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

SCHEMA = """
CREATE TABLE guarded (a String, CONSTRAINT c CHECK a != 'poison') ENGINE = MergeTree ORDER BY a;
CREATE TABLE guarded_in (a String) ENGINE = Null;
CREATE MATERIALIZED VIEW guarded_view TO guarded AS SELECT a FROM guarded_in;
CREATE TABLE plain (a String) ENGINE = MergeTree ORDER BY a;
CREATE TABLE plain_in (a String) ENGINE = Null;
CREATE MATERIALIZED VIEW plain_view TO plain AS
SELECT if(throwIf(a = 'poison'), '', a) AS a FROM plain_in;
CREATE TABLE sorted (a String) ENGINE = MergeTree ORDER BY a;
CREATE TABLE sorted_in (a String) ENGINE = Null;
CREATE MATERIALIZED VIEW sorted_view TO sorted AS
SELECT arrayJoin(arrayMap(n -> concat(a, toString(n)), range(1000000))) AS a FROM sorted_in
"""


@pytest.fixture
def tables(client):
    for statement in SCHEMA.split(";"):
        client.command(
            statement.replace(" TABLE ", " TABLE IF NOT EXISTS ").replace(
                " VIEW ", " VIEW IF NOT EXISTS "
            )
        )
    return client


@pytest.mark.parametrize(
    ("into", "behind", "data", "settings", "code"),
    [
        ("guarded", "guarded", b"fine\npoison\n", {}, 469),
        ("guarded_in", "guarded", b"fine\npoison\n", {}, 469),
        ("plain_in", "plain", b"fine\npoison\n", {}, 395),
        ("sorted_in", "sorted", b"x\n", {"max_memory_usage": 20_000_000}, 241),
    ],
    ids=["a constraint", "a constraint behind a view", "a view", "memory in a view"],
)
def test_insert_failure_in_a_view_is_raised_and_nothing_is_stored(
    tables, into, behind, data, settings, code
):
    with pytest.raises(DatabaseError) as failure:
        tables.raw_insert(into, insert_block=data, fmt="LineAsString", settings=settings)

    assert failure.value.code == code
    assert tables.query(f"SELECT count() FROM {behind}").result_rows == [(0,)]


def test_settings_inside_the_statement_and_data_of_any_bytes_still_work(tables, http_call):
    data = bytes(range(1, 256)).replace(b"\n", b"") + b"'; DROP TABLE plain; --"
    settings = b"SETTINGS async_insert = 0, insert_deduplicate = 0"
    statement = b"INSERT INTO plain (a) %b FORMAT LineAsString\n" % settings

    status, _, body = http_call("POST", "/", statement + data)

    assert (status, body) == (200, b"")
    rows = tables.raw_query("SELECT hex(a) FROM plain", fmt="TabSeparated").decode().split()
    assert rows == [data.hex().upper()]
    tables.command("TRUNCATE TABLE plain")
