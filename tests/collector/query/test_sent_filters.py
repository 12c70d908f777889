"""Filters that clients send beside a statement: parsed, and rebuilt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collector.query.test_sql_names import CATALOGUE
from tracereel_collector.engine.lexer import TokenKind, tokens
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.user_sql.sent_filters import read_filters, split_filters

EVENTS = "{'events' : '%s'}"


def hexed(text):
    return "'" + "".join(f"\\x{byte:02x}" for byte in text.encode()) + "'"


def filters(text):
    """Return the conditions on `events` of a filter as Grafana quotes it."""
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return read_filters((EVENTS % quoted).encode(), CATALOGUE)["events"]


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        (" agent = 'x' ", (f"`agent` = {hexed('x')}",)),
        ("n >= 5 AND n != '7'", (f"`n` >= 5 AND `n` != {hexed('7')}",)),
        ("a = 'x' OR b ILIKE '%(%'", (f"`a` = {hexed('x')}", f"`b` ILIKE {hexed('%(%')}")),
        ("a NOT REGEXP 'x.*'", (f"`a` NOT REGEXP {hexed('x.*')}",)),
        ("a IN ('x', 'y') ", (f"`a` IN [{hexed('x')}, {hexed('y')}]",)),
        ("a NOT IN ('x')", (f"`a` NOT IN [{hexed('x')}]",)),
        (
            "Tags['it\\'s'] = 'y'",
            (f"`Tags`[{hexed(chr(105) + 't' + chr(39) + 's')}] = {hexed('y')}",),
        ),
        ("`a` <> 'x'", (f"`a` <> {hexed('x')}",)),
    ],
)
def test_conditions_are_rebuilt(sent, written):
    assert filters(sent) == written


@pytest.mark.parametrize(
    "sent",
    [
        "1 = 1",
        "a = b",
        "a = throwIf(1)",
        "throwIf(tenant = 'b') = 0",
        "a = 'x') OR (1 = 1",
        "a = 'x' -- AND b = 'y'\n OR",
        "a IN (SELECT secret FROM events)",
        "a IN ('x'",
        "_part = 'x'",
        "`a` + 1 = '2'",
        "a = 'x' UNION",
        "a = '\\x41'",
        "",
        "a",
        "a NOT",
    ],
)
def test_anything_but_comparisons_is_refused(sent):
    with pytest.raises(BadRequestError):
        filters(sent)


@pytest.mark.parametrize(
    "value",
    ["{'inner' : 'a = 1'}", "{'system.parts' : 'a = 1'}", "{'events'}", "{}x", "'events'", "{,}"],
)
def test_other_tables_and_other_values_are_refused(value):
    with pytest.raises(BadRequestError):
        read_filters(value.encode(), CATALOGUE)


def test_a_table_may_be_named_with_its_database_or_the_default_one():
    for name in ("events", "store.events", "default.events", '"default"."events"'):
        assert list(read_filters(f"{{'{name}': 'a = 1'}}".encode(), CATALOGUE)) == ["events"]


def test_the_clause_is_taken_from_the_end_of_a_statement_only():
    statement = b"SELECT ';' FROM events"
    clause = b"\nsettings additional_table_filters={'events' : ' a = \\'}\\' '}"

    assert split_filters(statement + clause) == (statement, clause.partition(b"=")[2])
    for other in (b"SELECT 1", statement + clause + b", max_threads = 1", b"SETTINGS"):
        assert split_filters(other) == (other, b"")


def test_every_alternative_is_beside_the_tenant():
    filters = CATALOGUE.filters("acme", {"events": ("`a` = 1", "`b` = 2 AND `c` = 3")})

    own = "tenant = \\'\\\\x61\\\\x63\\\\x6d\\\\x65\\'"
    assert f"'store.events': '{own} AND `a` = 1 OR {own} AND `b` = 2 AND `c` = 3'" in filters


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_leaves_its_literal(key, value):
    escaped = [each.replace("\\", "\\\\").replace("'", "\\'") for each in (key, value)]
    try:
        (condition,) = filters(f"Tags['{escaped[0]}'] = '{escaped[1]}'")
    except BadRequestError:
        assert "\\" in key + value or not (key + value).isprintable()
        return

    kinds = [token.kind for token in tokens(condition.encode())]
    sign = TokenKind.SIGN
    assert kinds == [TokenKind.NAME, sign, TokenKind.STRING, sign, sign, TokenKind.STRING]
