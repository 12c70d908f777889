"""Lexer and statement guard, without an engine."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.engine.failures import QueryError
from tracereel_collector.engine.lexer import TokenKind, tokens
from tracereel_collector.engine.refusals import Rules
from tracereel_collector.engine.statements import check_identifiers, check_settings, parse

RULES = Rules()
anything = st.text(alphabet=st.characters(exclude_categories=("Cs",)))


def in_quotes(quote: str) -> st.SearchStrategy[str]:
    def escape(text: str) -> str:
        return quote + text.replace("\\", "\\\\").replace(quote, quote * 2) + quote

    return anything.map(escape)


def enclosed() -> st.SearchStrategy[str]:
    """Return text that must be one token or none, whatever it contains."""
    line = anything.map(lambda text: text.replace("\n", " "))
    return st.one_of(
        in_quotes("'"),
        in_quotes("`").map(lambda name: f"1 AS {name}"),
        in_quotes('"').map(lambda name: f"1 AS {name}"),
        line.map(lambda text: f"1 -- {text}\n"),
        line.map(lambda text: f"1 // {text}\n"),
        line.map(lambda text: f"1 # {text}\n"),
        anything.map(lambda text: f"1 /* {text.replace('*/', '').replace('/*', '')} */"),
        anything.map(lambda text: f"1 /* /* {text.replace('*', '').replace('/', '')} */ ; */"),
        anything.map(lambda text: f"$tag${text.replace('$', '')}$tag$"),
    )


@given(st.lists(enclosed(), min_size=1, max_size=4))
def test_text_inside_strings_and_comments_never_changes_the_statement_count(
    items: list[str],
) -> None:
    statement = parse(f"SELECT {', '.join(items)}".encode(), RULES)
    assert statement.keyword == "SELECT"


@given(st.lists(enclosed(), min_size=1, max_size=3), st.sampled_from(["DROP TABLE t", "1", "'x'"]))
def test_a_second_statement_is_found_behind_any_strings_and_comments(
    items: list[str], second: str
) -> None:
    with pytest.raises(QueryError) as refused:
        parse(f"SELECT {', '.join(items)}; {second}".encode(), RULES)
    assert refused.value.code == 62


@given(st.binary())
def test_any_bytes_are_read_or_refused_with_a_code(data: bytes) -> None:
    code = 0
    try:
        parse(data, RULES)
    except QueryError as error:
        code = error.code
    assert code in {0, 48, 62, 497}


@given(st.binary())
def test_data_behind_format_is_not_looked_at(data: bytes) -> None:
    head = b"INSERT INTO t (a, b) FORMAT RowBinary\n"
    statement = parse(head + data, RULES)
    assert (statement.sql, statement.format) == ("INSERT INTO t (a, b)", "RowBinary")
    assert statement.data_start == len(head)


@given(st.text())
def test_tokens_cover_the_text_in_order(text: str) -> None:
    try:
        found = list(tokens(text.encode("utf-8", "replace")))
    except QueryError:
        return
    edges = [edge for token in found for edge in (token.start, token.end)]
    assert edges == sorted(edges)
    assert all(token.start < token.end for token in found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; SELECT 2",
        "SELECT 1;\n\n DROP TABLE t",
        "SELECT ';' ; DROP TABLE t",
        "SELECT 'a\\\\'; DROP TABLE t",
        "SELECT /* ' */ 1; DROP TABLE t -- '",
        "SELECT $a$ $b$ $a$; DROP TABLE t",
        "INSERT INTO t SELECT 1; DROP TABLE t",
        "INSERT INTO t VALUES (1); DROP TABLE t",
        "SELECT 'left open",
        "SELECT /* left open",
        "SELECT `left open",
        "",
        "  -- nothing",
        "1 + 1",
        "GRANT ALL TO x",
        "DROP TABLE a PARALLEL WITH DROP TABLE b",
        "INSERT INTO t",
        "INSERT INTO t; SELECT 1",
    ],
)
def test_more_or_less_than_one_statement_is_a_syntax_error(sql: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse(sql.encode(), RULES)
    assert refused.value.code == 62


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM file('/etc/hosts')",
        "SELECT * FROM FILE ('/etc/hosts')",
        "SELECT * FROM `file`('/etc/hosts')",
        'SELECT * FROM "fi\\x6ce"(1)',
        "SELECT * FROM file/**/('/etc/hosts')",
        "SELECT * FROM file -- x\n('/etc/hosts')",
        "SELECT (SELECT file('/etc/hosts'))",
        "EXPLAIN SELECT * FROM url('http://127.0.0.1')",
        "INSERT INTO FUNCTION file('x') SELECT 1",
        "INSERT INTO FUNCTION url('x') FORMAT CSV 1",
        "INSERT INTO t VALUES (file('/etc/hosts'))",
        "INSERT INTO t FROM INFILE '/etc/hosts' FORMAT CSV",
        "SELECT 1 INTO OUTFILE 'x'",
        "CREATE TABLE t (a Int8) ENGINE = File(CSV)",
        "CREATE TABLE t (a Int8) ENGINE URL('x', CSV)",
        "CREATE TABLE t ENGINE = Buffer(default, `/etc/hosts`, 1, 1, 1, 1, 1, 1, 1)",
        "CREATE DATABASE d ENGINE = Filesystem('/')",
        "CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local)",
        "CREATE VIEW v AS SELECT * FROM s3('x')",
        "CREATE DICTIONARY d (a Int8) PRIMARY KEY a SOURCE(FILE(path 'x' format CSV))",
        "CREATE USER u",
        "CREATE TEMPORARY TABLE t (a Int8)",
        "CREATE OR REPLACE DICTIONARY d (a Int8)",
        "ATTACH TABLE t FROM '/etc' (a Int8) ENGINE = MergeTree ORDER BY a",
        "SELECT * FROM default.`/etc/hosts`",
        "SELECT * FROM `default`.`/etc/hosts`",
        "SELECT * FROM `defaul\\x74`.`/etc/hosts`",
        "SELECT * FROM default . '/etc/hosts'",
        "SELECT 1 FORMAT Template SETTINGS format_template_resultset = '/etc/hosts'",
        "SELECT 1 SETTINGS format_schema = '/etc/hosts'",
        "SELECT 1 SETTINGS dialect = 'prql'",
        "SELECT 1 SETTINGS `input_format_record_errors_file_path` = '/tmp/x'",
        "SELECT 1 SETTINGS additional_result_filter = 'file(1)'",
        "SELECT 1 SETTINGS filter = 'file(1)'",
        "CREATE FUNCTION f AS x -> x",
        "SYSTEM SHUTDOWN",
        "SYSTEM KILL",
        "BACKUP TABLE t TO S3('x')",
        "BACKUP TABLE t TO Disk('x', 'y')",
        "SELECT * FROM eval('select 1')",
        "SELECT aiGenerate('x')",
    ],
)
def test_file_and_network_functions_are_denied(sql: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse(sql.encode(), RULES)
    assert refused.value.code == 497


@pytest.mark.parametrize("sql", ["SET max_threads = 1", "USE system", "BEGIN TRANSACTION"])
def test_session_statements_are_refused_with_a_hint(sql: str) -> None:
    with pytest.raises(QueryError, match="no session is kept") as refused:
        parse(sql.encode(), RULES)
    assert refused.value.code == 48


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1;;",
        "SELECT 'file(''x'')', \"url(\" FROM t -- ; file('x')",
        "SELECT engine FROM system.tables",
        "SELECT file, url FROM t WHERE filter = 'x'",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "CREATE TABLE t (a Int8 DEFAULT .5, file String) ENGINE = ReplacingMergeTree ORDER BY a",
        "CREATE MATERIALIZED VIEW v TO t AS SELECT engine FROM system.tables",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "CREATE DATABASE d ENGINE = Atomic",
        "SELECT * FROM numbers(3) WHERE number IN (1, 2)",
        "BACKUP TABLE t TO File('name')",
        "SYSTEM STOP MERGES t",
        "INSERT INTO t SELECT 1",
        "INSERT INTO values SELECT 1",
        "WITH x AS (SELECT 1) SELECT * FROM x FORMAT JSON",
    ],
)
def test_ordinary_statements_pass(sql: str) -> None:
    assert parse(sql.encode(), RULES).data_start is None


def test_the_format_of_the_result_is_the_outermost() -> None:
    sql = b"SELECT * FROM (SELECT 1) SETTINGS max_threads = 1 FORMAT JSONEachRow"
    assert parse(sql, RULES).format == "JSONEachRow"


def test_identifiers_sent_as_parameters_are_held_to_the_same_rules() -> None:
    statement = parse(b"SELECT * FROM {d:Identifier}.{t:Identifier}", RULES)
    assert statement.identifiers == {"d", "t"}
    check_identifiers(statement, {"d": "lab", "t": "my_table-1"}, RULES)
    for bad in ("default", "default./etc/hosts", "/etc/hosts", "file", "a`b"):
        with pytest.raises(QueryError) as refused:
            check_identifiers(statement, {"d": bad, "t": "t"}, RULES)
        assert refused.value.code == 497


def test_settings_that_name_files_are_denied_unless_the_schema_is_text() -> None:
    check_settings({"format_schema": "syntax...", "format_schema_source": "string"})
    check_settings({"additional_table_filters": "{'t': 'tenant = 1'}"})
    for bad in (
        {"format_schema": "/etc/hosts"},
        {"format_template_row": "/etc/hosts"},
        {"dialect": "prql"},
        {"additional_result_filter": "file('/etc/hosts') = ''"},
    ):
        with pytest.raises(QueryError) as refused:
            check_settings(bad)
        assert refused.value.code == 497


def test_kinds_of_tokens() -> None:
    found = [(token.kind, token.text) for token in tokens(b"a `b` 'c' 1x $h$;$h$ a$b$")]
    assert found == [
        (TokenKind.WORD, b"a"),
        (TokenKind.NAME, b"`b`"),
        (TokenKind.STRING, b"'c'"),
        (TokenKind.NUMBER, b"1x"),
        (TokenKind.STRING, b"$h$;$h$"),
        (TokenKind.WORD, b"a$b$"),
    ]


HEREDOC = re.compile(rb"\$(?P<tag>[A-Za-z0-9_]*)\$.*?\$(?P=tag)\$", re.DOTALL)
"""Reference pattern for the rule; it searches the rest of the text after every tag."""


@given(st.lists(st.sampled_from(["$", "a", "b", "1", " ", "$a$", "$$", ";"]), max_size=20))
def test_heredocs_end_where_their_tag_comes_again(pieces: list[str]) -> None:
    sql = "".join(pieces).encode()
    for token in tokens(sql):
        if sql.startswith(b"$", token.start):
            expected = HEREDOC.match(sql, token.start)
            assert (token.kind is TokenKind.STRING) == (expected is not None)
            assert expected is None or token.text == expected[0]
