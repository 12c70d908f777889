"""Bodies decoded in the engine, exactly once per token, as delivery inserts them."""

import json
import struct
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

SCHEMA = """syntax = "proto3";
message Item { string name = 1; uint64 value = 2; }
message Body { string tenant = 1; uint64 seq = 2; repeated Item items = 3; }
"""
TABLES = r"""
CREATE TABLE decode.proto_in
    (tenant String, seq UInt64, items Array(Tuple(name String, value UInt64))) ENGINE = Null;
CREATE TABLE decode.items (tenant String, seq UInt64, name String, value UInt64)
    ENGINE = MergeTree ORDER BY seq SETTINGS non_replicated_deduplication_window = 100;
CREATE MATERIALIZED VIEW decode.v1 TO decode.items AS
    SELECT tenant, seq, i.name AS name, i.value AS value
    FROM decode.proto_in ARRAY JOIN items AS i;
CREATE TABLE decode.sums (tenant String, n UInt64)
    ENGINE = SummingMergeTree ORDER BY tenant SETTINGS non_replicated_deduplication_window = 100;
CREATE MATERIALIZED VIEW decode.v2 TO decode.sums AS
    SELECT tenant, count() AS n FROM decode.items GROUP BY tenant;
CREATE TABLE decode.lines_in (tenant String, first_seq UInt64, body String) ENGINE = Null;
CREATE TABLE decode.lines (tenant String, seq UInt64, kind String, payload String)
    ENGINE = MergeTree ORDER BY seq SETTINGS non_replicated_deduplication_window = 100;
CREATE MATERIALIZED VIEW decode.v3 TO decode.lines AS
    SELECT tenant, first_seq + i - 1 AS seq, JSONExtractString(line, 'kind') AS kind,
           line AS payload
    FROM decode.lines_in
    ARRAY JOIN splitByChar('\n', body) AS line, arrayEnumerate(splitByChar('\n', body)) AS i
"""
BY_SCHEMA = {
    "format_schema_source": "string",
    "format_schema": SCHEMA,
    "format_schema_message_name": "Body",
}


@pytest.fixture
def tables(client: Any) -> Any:
    client.command("DROP DATABASE IF EXISTS decode")
    client.command("CREATE DATABASE decode ENGINE = Atomic")
    for sql in TABLES.split(";\n"):
        client.command(sql)
    return client


def settings(token: str, **more: Any) -> dict[str, Any]:
    once = {"async_insert": 0, "deduplicate_blocks_in_dependent_materialized_views": 1}
    return {**once, "insert_deduplication_token": token, **more}


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def body(tenant: str, seq: int, items: int) -> bytes:
    parts = [field(1, tenant.encode()), b"\x10", varint(seq)]
    parts += [field(3, field(1, b"; DROP\n\n") + b"\x10" + varint(i + 1)) for i in range(items)]
    message = b"".join(parts)
    return varint(len(message)) + message


def test_protobuf_by_token_is_stored_once_also_behind_a_second_view(tables: Any) -> None:
    block = b"".join(body("acme", number, 40) for number in range(1, 51))
    for token, expected in (("a", 2000), ("a", 2000), ("b", 4000), ("b", 4000), ("a", 4000)):
        tables.raw_insert(
            "decode.proto_in",
            insert_block=block,
            fmt="Protobuf",
            settings=settings(token, **BY_SCHEMA),
        )
        assert tables.command("SELECT count() FROM decode.items") == expected
        assert tables.command("SELECT sum(n) FROM decode.sums") == expected
    assert tables.query("SELECT any(name) FROM decode.items").first_row == ("; DROP\n\n",)


def test_lines_by_token_are_stored_once(tables: Any) -> None:
    lines = "\n".join(json.dumps({"kind": "k", "text": "x;\\n\\nDROP"}) for _ in range(200))
    rows = [["acme", number * 200 + 1, lines] for number in range(20)]
    for token, expected in (("x", 4000), ("x", 4000), ("y", 8000)):
        tables.insert(
            "decode.lines_in",
            rows,
            column_names=["tenant", "first_seq", "body"],
            settings=settings(token),
        )
        assert tables.command("SELECT count() FROM decode.lines") == expected
    assert tables.command("SELECT uniqExact(seq) FROM decode.lines") == 4000


def test_deduplication_token_applies_to_one_insert_only(tables: Any) -> None:
    """Different data under an old token would be dropped silently."""
    for number, options in enumerate([settings("t"), {}, {"max_threads": 1}, {}, settings("t")]):
        block = b"\x01a" + struct.pack("<Q", number) + b"\x01x"
        tables.raw_insert("decode.lines_in", insert_block=block, fmt="RowBinary", settings=options)
    assert tables.query("SELECT seq FROM decode.lines ORDER BY seq").result_rows == [
        (0,),
        (1,),
        (2,),
        (3,),
    ]


def test_a_corrupt_body_fails_the_whole_insert(tables: Any) -> None:
    good = body("acme", 1, 5)
    with pytest.raises(DatabaseError) as failed:
        tables.raw_insert(
            "decode.proto_in",
            insert_block=good + b"\x7f" + good[:9],
            fmt="Protobuf",
            settings=settings("c", **BY_SCHEMA),
        )
    assert failed.value.code in {32, 33, 444}
    assert tables.command("SELECT count() FROM decode.items") == 0
