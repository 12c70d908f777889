"""No statement reaches a denied relation, wherever in the grammar it is named."""

import http.client
import itertools
import json

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from tests.support.keys import make_key
from tests.support.sql_positions import MARK, SEEDS, shape, variants
from tests.support.two_tenants import Site
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.user_sql import tree
from tracereel_collector.query.user_sql.catalogue import LISTINGS, PUBLIC, SYSTEM, CatalogueCache
from tracereel_collector.query.user_sql.statement_text import SqlRefusedError, read

SECRET = "what-bravo-alone-knows"
PATHS = ("/v1/sql", "/clickhouse")


def site_with_charlie(folder):
    """Return a collector with a third tenant that has a key and no rows."""
    made = Site(folder)
    made.keys["charlie"] = make_key(folder, tenant="charlie", scope="read")["key"]
    return made


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = site_with_charlie(tmp_path_factory.mktemp("full"))
    for tenant, text in (("alpha", "what-alpha-knows"), ("bravo", SECRET)):
        made.send(
            {"event_id": f"{tenant}s", "trace_id": f"trc-{tenant}", "reasoning": text}
            | {"emitter_id": f"emt-{tenant}", "emitter_seq": 1, "llm_model": text},
            tenant=tenant,
        )
        made.send_spans(tenant.encode().ljust(16, b"_"), text, tenant=tenant)
    made.settle()
    yield made
    made.collector.stop()


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    made = site_with_charlie(tmp_path_factory.mktemp("empty"))
    yield made
    made.collector.stop()


@pytest.fixture(scope="module")
def engine(site):
    client = site.engine()
    yield client
    client.close()


@pytest.fixture(scope="module")
def catalogue(engine):
    return CatalogueCache("tracereel", lambda sql: engine.query(sql).result_rows).current()


@pytest.fixture(scope="module")
def denied(engine, catalogue):
    """Return denied relations, with their database and, for ours, also without it."""
    found = []
    for database, name in engine.query("SELECT database, name FROM system.tables").result_rows:
        if database == "tracereel" and name not in catalogue.readable:
            found += [name, f'"{name}"', f"tracereel.{name}"]
        elif database != "tracereel" and (
            database != "system" or name not in LISTINGS.keys() | SYSTEM
        ):
            found.append(f"{database}.{name}")
    return [*found, "`system`.`parts`", "`system.parts`", "`tracereel.events_in`", "SYSTEM . parts"]


def trees(site, statements):
    """Yield each statement that the engine's parser accepts, with its tree."""
    address = site.ask("GET", "/readyz").json()["store"]["address"]
    secret = (site.collector.data_dir / "store" / "engine.secret").read_text().strip()
    headers = {"X-ClickHouse-User": "tracereel", "X-ClickHouse-Key": secret}
    link = http.client.HTTPConnection(address)
    for statement in statements:
        path = "/?database=tracereel&default_format=TSVRaw&param_p=x"
        link.request("POST", path, f"EXPLAIN AST {statement}".encode(), headers)
        answer = link.getresponse()
        shown = answer.read().decode()
        if answer.status == 200:
            yield statement, shown
    link.close()


@pytest.fixture(scope="module")
def parsed(site):
    """Return statements with the marker and their trees: two per shape, all that hide it."""
    found = {}
    every = dict.fromkeys(itertools.chain.from_iterable(map(variants, SEEDS)))
    for statement, shown in trees(site, every):
        hidden = statement if MARK not in shown else ""
        found.setdefault((shape(shown), is_text(statement), hidden), []).append((statement, shown))
    return [entry for group in found.values() for entry in group[:2]]


def is_text(statement):
    return f"'{MARK}'" in statement


def guard(statement, shown, catalogue):
    """Run the checks that precede execution."""
    said = read(statement.encode(), catalogue)
    tree.check(shown, catalogue, subqueries=said.subqueries)


def test_every_denied_relation_is_refused_at_every_position(parsed, denied, catalogue):
    """Refused by its written name, whatever the tree shows."""
    named = [statement for statement, _ in parsed if not is_text(statement)]
    assert len(named) > 90
    assert len(denied) > 250
    for statement, name in itertools.product(named, denied):
        with pytest.raises((SqlRefusedError, BadRequestError)):
            read(statement.replace(f"`{MARK}`", MARK).replace(MARK, name).encode(), catalogue)


def test_the_tree_alone_refuses_every_denied_relation(parsed, denied, catalogue):
    """A name that got past the tokens is still refused where the engine could read it."""
    for statement, shown in parsed:
        lines = [line for line in shown.split("\n") if MARK in line]
        read = [line for line in lines if line.split()[0] in ("Identifier", "TableIdentifier")]
        if not any(line.split()[1].startswith(MARK) for line in read):
            continue
        for name in denied[::7]:
            with pytest.raises(SqlRefusedError):
                tree.check(shown.replace(MARK, name.replace("`", "").replace('"', "")), catalogue)
        assert statement


def test_denied_relations_are_refused_over_http(site, parsed, denied):
    names = itertools.cycle(denied)
    for path, (statement, _) in zip(itertools.cycle(PATHS), parsed, strict=False):
        if is_text(statement):
            continue
        named = statement.replace(f"`{MARK}`", MARK).replace(MARK, next(names))
        answer = site.ask("POST", path, named.encode())
        assert answer.status in (400, 403), (named, answer.body)
        assert b"refused" in answer.body or b"cannot begin" in answer.body, (named, answer.body)


def answers(site, statement, path):
    query = "?param_p=x" if path == "/clickhouse" else ""
    answer = site.ask("POST", f"{path}{query}", statement.encode(), tenant="charlie")
    return answer.status, answer.body


def test_tenant_without_rows_gets_results_of_an_empty_store(site, empty, parsed, denied):
    """For a tenant without rows: every clause, and every position of a text."""
    named = [name for name in denied if "`" not in name and '"' not in name]
    own = [name for name in named if "." not in name]
    texts = [statement for statement, _ in parsed if is_text(statement)]
    statements = SEEDS + [
        statement.replace(MARK, name)
        for statement, name in zip(texts * 3, itertools.cycle(own + named[::11]), strict=False)
    ]
    assert len(texts) > 10
    answered = 0
    for number, statement in enumerate(statements):
        path = PATHS[number % 2] if "{p:" not in statement else "/clickhouse"
        full, bare = answers(site, statement, path), answers(empty, statement, path)
        assert full == bare, statement
        answered += full[0] == 200
    assert answered > 60


def test_membership_in_a_readable_table_is_that_of_the_own_rows(site, engine, catalogue):
    """`row IN table` with bravo's row matches in the engine but not for alpha."""
    known = 0
    for table, column in catalogue.tenant_columns.items():
        columns = engine.query(
            "SELECT name FROM system.columns WHERE database = 'tracereel' AND table = {t:String}"
            " AND default_kind NOT IN ('ALIAS', 'EPHEMERAL')",
            parameters={"t": table},
        ).result_rows
        if len(columns) > 12:
            continue
        listed = ", ".join(f"toString(`{name}`)" for (name,) in columns)
        row = engine.query(f"SELECT {listed} FROM {table} WHERE {column} = 'bravo'").first_row
        if not row:
            continue
        values = ", ".join(
            "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" for text in row
        )
        for name in (table, f"tracereel.{table}"):
            statement = f"SELECT ({values}) IN {name} AS found"
            try:
                known += engine.query(statement).first_row == (1,)
            except DatabaseError:  # columns that cannot be in a set
                continue
            answer = site.sql(statement)
            assert answer.status == 200, answer.body
            assert answer.json()["rows"] == [[0]], statement
    assert known >= 4


ORACLES = [
    "WITH {t} AS x SELECT 1 WHERE (1, 2) IN x",
    "WITH {t} AS x, x AS y SELECT 1 IN y",
    "SELECT {t} AS x, 1 IN x",
    "SELECT 1 IN ({t} AS x)",
    "SELECT arrayFilter(v -> v IN {t}, [1])",
    "SELECT (SELECT tuple(*) FROM {t}).*",
    "SELECT CASE WHEN 1 THEN (SELECT tuple(*) FROM {t}) END.*",
    "SELECT sum(1) OVER w.*, 1 FROM agent_events WINDOW w AS (ORDER BY {t})",
    "SELECT ({t}).COLUMNS('.*') FROM agent_events",
    "SELECT {t}.COLUMNS('.*') FROM agent_events",
    "SELECT notInIgnoreSet(1, {t})",
    "SELECT 1 FROM agent_events AS a JOIN {t} AS b USING (tenant)",
]


@pytest.mark.parametrize("path", PATHS)
def test_membership_oracles_are_refused(site, path):
    for table in ("agent_events_to_agent_minutes", "schema_migrations", "system.processes"):
        for oracle in ORACLES:
            statement = oracle.format(t=table)
            answer = site.ask("POST", path, statement.encode())
            assert answer.status == 403, (statement, answer.body)


@pytest.mark.parametrize("path", PATHS)
def test_a_row_of_a_denied_table_is_not_recognised(site, engine, path):
    """With a complete row, so that the statement has a result."""
    row = engine.query("SELECT * APPLY toString FROM schema_migrations LIMIT 1").first_row
    values = ", ".join(f"'{value}'" for value in row)
    statement = f"WITH schema_migrations AS x SELECT 1 AS found WHERE ({values}) IN x"
    assert engine.query(statement).result_rows == [(1,)]

    answer = site.ask("POST", path, statement.encode())

    assert answer.status == 403, answer.body


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count() FROM (SELECT 2 AS total_rows) AS a NATURAL JOIN system.tables AS b",
        "SELECT count() FROM system.tables JOIN (SELECT 2 AS total_rows) AS b USING (total_rows)",
        "SELECT (1, 2).*",
        "SELECT (1, 2)\u00a0.\u00a0*",
        "SELECT * FROM system\u00a0.\u3000parts",
        "SELECT CASE WHEN 1 THEN tuple(1) END.*",
        "SELECT tuple(1)::Tuple(a UInt8).*",
        "SELECT inIgnoreSet(1, agent_events)",
        "WITH 1 AS x SELECT 1 IN x",
        "WITH q AS (SELECT 1), agent_events AS q SELECT 1 IN q",
        "WITH agent_events AS `system.databases` SELECT 1 IN `system.databases`",
        "SELECT 1 AS `tracereel.agent_events`",
        "SELECT 1 AS `x (alias agent_events)`",
        "SELECT * FROM 'schema_migrations'",
        "SELECT * FROM 'x\n          Literal UInt64_1'",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM (EXPLAIN SELECT 1)",
        "SELECT * FROM agent_events UUID '1f356853-64b0-4005-9e73-1f9c7f10453c'",
    ],
)
def test_forms_that_hide_what_they_read_are_refused(site, statement):
    for path in PATHS:
        answer = site.ask("POST", path, statement.encode())
        assert answer.status == 403, answer.body


@pytest.mark.parametrize(
    "statement",
    [
        "WITH q AS (SELECT trace_id FROM agent_events) SELECT count() FROM scores WHERE trace_id IN q",
        "WITH q (a) AS (SELECT 1) SELECT 1 IN q",
        "SELECT s.*, tracereel.agent_events.* FROM scores AS s, tracereel.agent_events LIMIT 1",
        "SELECT toJSONString(tuple(a.*)) FROM agent_events AS a",
        "SELECT a.COLUMNS('^trace') FROM agent_events AS a",
        "SELECT ('x (children 3', 1) AS pair, 'y (alias z)' AS text",
        'SELECT count() AS "runs (all)" FROM agent_events',
        "SELECT 'schema_migrations' AS name",
    ],
)
def test_ordinary_forms_pass(site, statement):
    assert site.sql(statement).status == 200, site.sql(statement).body


def test_denied_relations_are_empty_under_a_tenants_settings(site, engine, catalogue):
    """Relations that the checks might miss are still filtered to nothing by the engine."""
    settings = {"additional_table_filters": catalogue.filters("alpha")}
    for name in sorted(catalogue.known - {*catalogue.readable}):
        assert engine.query(f"SELECT count() FROM {name}", settings=settings).first_row == (0,), (
            name
        )
    assert engine.query("SELECT count() FROM agent_events", settings=settings).first_row == (1,)
    assert not PUBLIC - catalogue.known


def test_virtual_columns_of_the_engine_are_refused(engine, catalogue):
    for table in [*catalogue.readable, *(f"system.{name}" for name in LISTINGS.keys() | SYSTEM)]:
        shown = engine.raw_query(
            f"DESCRIBE TABLE {table}",
            settings={"describe_include_virtual_columns": 1},
            fmt="JSONEachRow",
        )
        for column in map(json.loads, shown.splitlines()):
            if not column["is_virtual"]:
                continue
            with pytest.raises(SqlRefusedError):
                tree.check(f"SelectQuery (children 1)\n Identifier {column['name']}", catalogue)
