"""Names in SQL tokens: CTE detection and forbidden names."""

import pytest

from tracereel_collector.engine.lexer import tokens
from tracereel_collector.query.user_sql.catalogue import build_catalogue
from tracereel_collector.query.user_sql.statement_text import (
    SqlRefusedError,
    check_names,
    subquery_names,
)

CATALOGUE = build_catalogue(
    "store",
    tables=[
        *(("store", name, "MergeTree") for name in ("events", "inner", "model_prices_local")),
        *(("store", "prices_view", "View"), ("system", "parts", "SystemParts")),
        *(("system", "one", "SystemOne"), ("Other", "Rows", "MergeTree")),
    ],
    columns=[("events", "tenant")],
    system_columns=[("name",), ("total_rows",)],
)


def check(statement):
    check_names(list(tokens(statement.encode())), CATALOGUE)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("WITH q AS (SELECT 1) SELECT 1", {"q"}),
        ('WITH "a b" AS (SELECT 1), c (x, y) AS (SELECT 1, 2) SELECT 1', {"a b", "c"}),
        ("WITH RECURSIVE q AS MATERIALIZED (SELECT 1) SELECT 1", {"q"}),
        ("WITH 1 AS x, (SELECT 1) AS y SELECT x AS z", set()),
        ("SELECT 1 AS", set()),
        ("AS (", set()),
        (") AS (", set()),
    ],
)
def test_names_of_subqueries_are_found(statement, found):
    assert subquery_names(list(tokens(statement.encode()))) == found


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT inner",
        "SELECT 1 AS INNER",
        "SELECT x.inner.y",
        "SELECT store.inner",
        "SELECT `store` . `inner`",
        "SELECT `store.events`",
        'SELECT 1 AS "system.one"',
        "SELECT system.parts",
        "SELECT SYSTEM.PARTS",
        "SELECT other.rows.a",
        "SELECT prices_view",
        "SELECT (a).*",
        "SELECT f(a).*",
        "SELECT [a].*",
        "SELECT CASE WHEN a THEN b END.*",
        "SELECT a::JSON.*",
        "SELECT a.1.*",
        "SELECT sum(a) OVER w.*",
        "SELECT (a).COLUMNS('x')",
        "*.*",
        ".*",
        "SELECT a FROM b NATURAL JOIN c",
    ],
)
def test_names_and_forms_that_are_refused(statement):
    with pytest.raises(SqlRefusedError):
        check(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT events.*, e.* FROM events AS e",
        "SELECT DISTINCT store.events.* FROM store.events",
        "SELECT count(e.*), 2 * 3 FROM events AS e",
        "SELECT 'inner', 'system.parts' AS x, parts FROM system.one",
        "SELECT e.columns FROM events AS e",
    ],
)
def test_names_and_forms_that_pass(statement):
    check(statement)


def test_tables_without_a_tenant_are_filtered_to_nothing():
    filters = CATALOGUE.filters("acme")

    assert "'store.inner': '0'" in filters
    assert "'store.prices_view': '0'" in filters
    # Tables behind the public tables of a cluster have to stay readable.
    assert "model_prices_local" not in filters
    assert filters.index("store.events") < filters.index("store.inner")
