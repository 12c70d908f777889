-- How many of the runs that match have each value, the most frequent of each kind first.
WITH matching AS
(
    SELECT run, status
    FROM (SELECT run, $columns FROM ($rows) AS s GROUP BY run)
    WHERE $conditions
)
SELECT substringIndex(tag, ':', 1) AS kind, substring(tag, length(kind) + 2) AS value, runs
FROM
(
    SELECT tag, uniqExact(cityHash64(run)) AS runs
    FROM (SELECT run, arrayJoin(s.tags) AS tag FROM ($rows) AS s WHERE run GLOBAL IN (SELECT run FROM matching))
    WHERE $kinds
    GROUP BY tag
    UNION ALL
    SELECT concat('status:', status) AS tag, count() AS runs
    FROM matching
    WHERE {count_status:UInt8}
    GROUP BY status
)
ORDER BY runs DESC, value
LIMIT {values:UInt32} BY kind
