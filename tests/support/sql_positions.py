"""Positions of names in ClickHouse's grammar, found with the engine's own parser."""

from tracereel_collector.engine.lexer import TokenKind, tokens

MARK = "zz_mark"

# At least one statement per clause; every token is replaced and every gap filled.
SEEDS = [
    "WITH q AS (SELECT 1 AS a) SELECT a FROM q WHERE a IN q",
    "WITH q (a) AS (SELECT 1) SELECT a FROM q",
    "WITH q AS MATERIALIZED (SELECT 1) SELECT count() FROM q",
    "WITH RECURSIVE q AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM q WHERE a < 3) SELECT a FROM q",
    "WITH (SELECT 1) AS one, [1, 2] AS list SELECT one, has(list, 1)",
    "WITH (x, y) -> x + y AS f SELECT arrayMap(x -> x + 1, [1])",
    "SELECT e.tenant AS owner, e.* FROM agent_events AS e",
    "SELECT tracereel.agent_events.tenant FROM tracereel.agent_events",
    "SELECT COLUMNS('^trace'), COLUMNS(tenant, trace_id), e.COLUMNS('status') FROM agent_events e",
    "SELECT * EXCEPT (payload, tenant) REPLACE (upper(status) AS status) FROM agent_events",
    "SELECT * EXCEPT ('pay.*') FROM agent_events",
    "SELECT * ILIKE '%trace%' FROM agent_events",
    "SELECT count() FROM agent_events AS a JOIN scores AS s USING (trace_id, tenant)",
    "SELECT count() FROM agent_events AS a LEFT JOIN scores AS s ON a.trace_id = s.trace_id",
    "SELECT count() FROM agent_events GLOBAL ANY LEFT JOIN scores USING trace_id",
    "SELECT count() FROM agent_events, scores",
    "SELECT count() FROM (SELECT 1 AS a) AS t (b) CROSS JOIN (SELECT 2) AS u",
    "SELECT tag FROM agent_events ARRAY JOIN [1, 2] AS tag",
    "SELECT tag FROM agent_events LEFT ARRAY JOIN [tenant] AS tag",
    "SELECT count() FROM emitters FINAL SAMPLE 1 / 10 OFFSET 1 / 2",
    "SELECT count() FROM emitters FINAL",
    (
        "SELECT sum(1) OVER w, rank() OVER (PARTITION BY tenant ORDER BY trace_id ROWS BETWEEN 1"
        " PRECEDING AND CURRENT ROW) FROM agent_events WINDOW w AS (PARTITION BY status ORDER BY tenant)"
    ),
    (
        "SELECT 1 AS n FROM agent_events ORDER BY trace_id COLLATE 'en', toUInt8(n) ASC NULLS LAST WITH"
        " FILL FROM 1 TO 3 STEP 1 INTERPOLATE (n AS n + 1)"
    ),
    "SELECT trace_id FROM agent_events ORDER BY ALL LIMIT 1 OFFSET 1 BY tenant LIMIT 2, 3",
    "SELECT trace_id FROM agent_events ORDER BY trace_id LIMIT 1 WITH TIES",
    "SELECT trace_id FROM agent_events ORDER BY 1 OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY",
    "SELECT DISTINCT ON (tenant, status) trace_id FROM agent_events",
    "SELECT tenant, count() FROM agent_events GROUP BY GROUPING SETS ((tenant), (status))",
    "SELECT tenant, count() FROM agent_events GROUP BY ROLLUP (tenant) HAVING count() > 0",
    "SELECT tenant, count() AS n FROM agent_events GROUP BY ALL WITH TOTALS",
    "SELECT row_number() OVER () AS n FROM agent_events WHERE tenant = 'x' QUALIFY n = 1",
    "SELECT CAST(tuple(1) AS Tuple(a UInt8)), 1::UInt8, CAST(1, 'UInt8'), {p:String}",
    "SELECT EXTRACT(DAY FROM toDate('2020-01-01')), toDate('2020-01-01') + INTERVAL 1 DAY",
    "SELECT CASE status WHEN 'a' THEN 1 ELSE 2 END, status = 'a' ? 1 : 2 FROM agent_events",
    "SELECT arrayFilter((x, y) -> x IN (1, 2), [1], [2]), arrayMap(lambda(tuple(x), x), [1])",
    "SELECT quantileIf(0.5)(duration_ms, 1), sum(duration_ms) FILTER (WHERE 1) FROM agent_events",
    "SELECT first_value(status) RESPECT NULLS FROM agent_events",
    "SELECT EXISTS(SELECT 1 FROM scores), 1 = ANY (SELECT 1), 1 > ALL (SELECT 1)",
    "SELECT 1 IN (1, 2), 1 NOT IN (SELECT 1), 1 GLOBAL IN (1), 1 IN tuple(1), in(1, [1])",
    "SELECT (tenant, trace_id) IN (SELECT tenant, trace_id FROM scores) FROM agent_events",
    "SELECT [1, 2][1], (1, 'a').2, tuple(1 AS a).1, map('a', 1)['a']",
    "SELECT tenant LIKE 'a%' ESCAPE '!' FROM agent_events",
    "SELECT trim(BOTH 'a' FROM 'b'), substring('abc' FROM 2 FOR 1), position('a' IN 'b')",
    "SELECT 1 BETWEEN 0 AND 2, 1 IS NOT DISTINCT FROM 2, NOT 1, -1, 1 IS NULL",
    "SELECT dateDiff(DAY, today(), today()), DATE '2020-01-01'",
    "SELECT 1 UNION ALL SELECT 2 INTERSECT SELECT 3 EXCEPT SELECT 4",
    "(SELECT 1) UNION DISTINCT (FROM agent_events SELECT count())",
    "SELECT * FROM (SELECT 1 AS a) PASTE JOIN (SELECT 2 AS b)",
    "SELECT count() FROM 'agent_events'",
    "SELECT count() FROM agent_events UUID '1f356853-64b0-4005-9e73-1f9c7f10453c'",
    "SELECT name, type FROM system.columns WHERE table = 'agent_events'",
    "SELECT count() FROM system.tables AS t JOIN system.databases AS d ON t.database = d.name",
    "EXPLAIN SYNTAX SELECT count() FROM agent_events",
    "EXPLAIN QUERY TREE SELECT count() FROM agent_events",
    "SELECT count() FROM agent_events FORMAT JSON",
    "SHOW TABLES FROM tracereel LIKE '%a%'",
    "DESCRIBE TABLE tracereel.agent_events",
    "EXISTS TABLE agent_events",
]
_FILLINGS = (MARK, f"AS {MARK}", f", {MARK}", f"IN {MARK}", f"(SELECT {MARK})")
_REPLACED = {TokenKind.WORD, TokenKind.NAME, TokenKind.NUMBER, TokenKind.STRING}


def variants(seed):
    """Yield a statement with the marker in place of each token, as a text too, and in each gap."""
    text = seed.encode()
    seen = list(tokens(text))
    for token in seen:
        before, behind = text[: token.start].decode(), text[token.end :].decode()
        if token.kind in _REPLACED:
            yield f"{before}{MARK}{behind}"
            yield f"{before}`{MARK}`.*{behind}"
        if token.kind is TokenKind.STRING:
            yield f"{before}'{MARK}'{behind}"
        for filling in _FILLINGS:
            yield f"{before} {filling} {text[token.start :].decode()}"


def shape(tree):
    """Return the position of the marker in a tree: the nodes above it and the end of its line."""
    path, found = [], []
    for line in filter(None, tree.split("\n")):
        depth = len(line) - len(line.lstrip(" "))
        path[depth:] = [line.split()[0]]
        if MARK in line:
            found.append((*path[-4:], "alias" if f"(alias {MARK}" in line else ""))
    return tuple(found)
