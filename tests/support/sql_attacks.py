"""Statements that try to reach files, the machine or other tenants' rows."""

# Statements that must never run for any user.
REFUSED = [
    *("DROP TABLE agent_events", "INSERT INTO agent_events SELECT 1", "SYSTEM FLUSH LOGS"),
    *("ALTER TABLE agent_events DELETE WHERE 1", "OPTIMIZE TABLE agent_events", "SET readonly = 0"),
    *(
        "CREATE TABLE t (a Int8) ENGINE = Memory",
        "SELECT 1; DROP TABLE agent_events",
        "USE default",
    ),
    *("TRUNCATE TABLE agent_events", "KILL QUERY WHERE 1", "SHOW CREATE TABLE schema_migrations"),
    *("EXPLAIN PIPELINE SELECT 1", "EXPLAIN indexes = 1 SELECT 1", "EXPLAIN ESTIMATE SELECT 1"),
    *(
        "SHOW PROCESSLIST",
        "SHOW GRANTS",
        "CHECK TABLE agent_events",
        "BACKUP TABLE x TO Disk('a','b')",
    ),
    *("SELECT 1 INTO OUTFILE '/tmp/x'", "SELECT 1 SETTINGS max_execution_time = 0"),
    *("SELECT * FROM (SELECT 1 SETTINGS readonly = 0)", "SELECT * APPLY(sum) FROM agent_events"),
    *("SELECT sleep(3)", "SELECT sleepEachRow(1)", "SELECT throwIf(1)", "SELECT hostName()"),
    *("SELECT file('/etc/passwd')", "SELECT dictGet('d', 'a', 1)", "SELECT joinGet('t', 'a', 1)"),
    *("SELECT getSetting('readonly')", "SELECT getServerPort('tcp_port')", "SELECT serverUUID()"),
    *("SELECT hasColumnInTable('tracereel', 'agent_events', 'tenant')", "SELECT tcpPort()"),
    *("SELECT arrayFold((a, x) -> a + x, range(100), toInt64(0))", "SELECT currentProfiles()"),
    *(
        "SELECT formatRow('Template', 1)",
        "SELECT catboostEvaluate('/m', 1)",
        "SELECT filesystemAvailable()",
    ),
    *(
        "SELECT * FROM system.parts",
        "SELECT * FROM system.query_log",
        "SELECT * FROM system.tables",
    ),
    *("SELECT total_rows FROM system.tables", "SELECT t.total_bytes FROM system.tables AS t"),
    *("SELECT COLUMNS('total') FROM system.tables", "SELECT * FROM system.processes"),
    *(
        "SELECT (SELECT max(total_rows) FROM system.tables), 1 AS total_rows",
        "SELECT * FROM system.numbers",
    ),
    *("SELECT * FROM information_schema.tables", "SELECT * FROM INFORMATION_SCHEMA.COLUMNS"),
    *("SELECT * FROM schema_migrations", "SELECT * FROM tracereel.schema_migrations"),
    *("SELECT 1 WHERE 1 IN schema_migrations", "SELECT 1 WHERE 1 IN system.parts"),
    *(
        "SELECT * FROM default.x",
        "SELECT * FROM `/etc/passwd`.x",
        "SELECT _part_offset FROM agent_events",
    ),
    *(
        "SELECT e._part FROM agent_events AS e",
        "SELECT 1 WHERE (1, 2) GLOBAL IN tracereel.events_in",
    ),
    "SELECT * FROM (WITH schema_migrations AS (SELECT 1) SELECT 1) AS a, schema_migrations",
    "SELECT * FROM `agent_events\n TableIdentifier x`",
    "SELECT {t:Identifier} FROM agent_events",
]
FUNCTIONS = [
    *("merge('tracereel', '.*')", "numbers(10)", "file('/etc/passwd')"),
    "url('http://127.0.0.1:PORT/', 'CSV')",
    "remote('127.0.0.1:PORT', 'tracereel', 'agent_events')",
    *("s3('http://127.0.0.1:PORT/b/k')", "cluster('default', tracereel.agent_events)"),
    "view(SELECT * FROM agent_events)",
    *("viewIfPermitted(SELECT 1 ELSE null('a Int8'))", "generateRandom('a Int8')"),
    *("values('a Int8', 1)", "executable('x', 'CSV', 'a Int8')"),
    *("mysql('127.0.0.1:PORT', 'd', 't', 'u', 'p')", "input('a Int8')"),
    *("dictionary('d')", "zeros(1)", "loop(agent_events)"),
    *("mergeTreeIndex('tracereel', 'agent_events')", "sqlite('/etc/passwd', 't')"),
    *("postgresql('127.0.0.1:PORT', 'd', 't', 'u', 'p')", "format('CSV', '1')"),
    *("null('a Int8')", "hdfs('hdfs://127.0.0.1:PORT/x')"),
    "redis('127.0.0.1:PORT', 'k', 'k String')",
]

# Ways to reach and use a table. {t} is the table, {c} its tenant column.
SOURCES = [
    "{t}",
    "tracereel.{t}",
    '`tracereel`."{t}" AS x',
    "(SELECT * FROM {t}) AS x",
    "(SELECT * FROM {t} UNION ALL SELECT * FROM {t}) AS x",
    "/* {t} */ {t} -- agent_events\n",
]
ATTEMPTS = [
    "SELECT * FROM {s}",
    "SELECT count(), min({c}), max({c}), groupUniqArray({c}) FROM {s}",
    "SELECT toString(tuple(*)) FROM {s} WHERE {c} = 'bravo'",
    "SELECT * FROM {s} WHERE {c} != 'alpha' OR 1",
    "SELECT 'alpha' AS {c}, * FROM {s}",
    "SELECT {c} AS y, 'alpha' AS {c} FROM {s}",
    "SELECT DISTINCT {c} FROM {s}",
    "SELECT count() FROM {s} HAVING count() > 0",
    "SELECT (SELECT groupArray(toString({c})) FROM {s})",
    "SELECT 1 WHERE 'bravo' IN (SELECT {c} FROM {s})",
    "SELECT exists(SELECT 1 FROM {s} WHERE {c} = 'bravo') AS e WHERE e",
    "WITH q AS (SELECT * FROM {s}) SELECT a.* FROM q AS a FULL OUTER JOIN q AS b ON a.{c} = b.{c}",
    "WITH {t} AS (SELECT * FROM tracereel.{t}) SELECT * FROM {t}",
    (
        "WITH RECURSIVE r AS (SELECT {c} AS n, 0 AS i FROM {s}"
        " UNION ALL SELECT n, i + 1 FROM r WHERE i < 2) SELECT * FROM r"
    ),
    "SELECT * FROM {s} ARRAY JOIN ['alpha', 'bravo'] AS {c}_",
    "SELECT {c} FROM {s} EXCEPT SELECT 'alpha'",
    "SELECT {c} FROM {s} INTERSECT SELECT 'bravo'",
    "SELECT * FROM {s} ORDER BY {c} DESC LIMIT 1 BY {c}",
    "EXPLAIN QUERY TREE SELECT (SELECT groupArray(toString({c})) FROM {s})",
    "SELECT * FROM {t} AS `system.databases`",
    "SELECT * FROM {t} AS `tracereel.scores`",
    "SELECT * FROM {t} AS emitters",
    "SELECT * FROM {s} SETTINGS additional_table_filters = {{}}",
    "SELECT * FROM {t} PREWHERE {c} = 'bravo'",
    "SELECT * FROM {t} FINAL",
]
# Each fails on a row of bravo: an error would reveal that there is one.
ORACLES = [
    "SELECT count() FROM {s} WHERE {o} = 1",
    "SELECT count() FROM {s} PREWHERE {o} = 1",
    "SELECT sum({o}) FROM {s}",
    "SELECT {o} AS v FROM {s} GROUP BY v HAVING v = 1",
    "SELECT count() FROM {s} WHERE {c} = 'bravo' AND {o} = 1",
    "SELECT count() FROM {s} WHERE {c} = 'bravo' OR {o} = 1",
    "SELECT count() FROM (SELECT {o} AS v FROM {s}) WHERE v = 1",
    "SELECT count() FROM (SELECT {c}, {o} AS v FROM {s}) WHERE v = 1 AND {c} = 'bravo'",
    (
        "SELECT count() FROM (SELECT 1 AS k) AS l JOIN (SELECT 1 AS k, * FROM {s}) AS r"
        " ON l.k = r.k AND {o} = 1"
    ),
    "SELECT 1 WHERE 1 IN (SELECT {o} FROM {s})",
    "SELECT {o} AS v FROM {s} QUALIFY row_number() OVER (ORDER BY v) = 1",
    "SELECT max({o}) OVER (ORDER BY {c}) FROM {s} ORDER BY {o} LIMIT 1",
    "SELECT count() FROM {s} ARRAY JOIN [{o}] AS z WHERE z = 1",
    "SELECT DISTINCT {o} FROM {s} WHERE {o} = 1",
    "SELECT topK(1)({o}) FROM {s} WHERE {o} > 0",
    "SELECT countIf({o} = 1) FROM {s} WHERE identity({o}) = 1",
]
