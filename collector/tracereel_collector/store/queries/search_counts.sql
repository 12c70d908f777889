-- Number of matching runs by tag value and by time step, in one pass over the runs.
-- Counted are texts `kind:value`, the most frequent of each kind first.
SELECT substringIndex(tag, ':', 1) AS kind, substring(tag, length(kind) + 2) AS value, count() AS runs
FROM
(
    SELECT arrayJoin(arrayConcat(said, $marks)) AS tag
    FROM
    (
        SELECT $said AS said, $columns
        FROM ($rows) AS s
        GROUP BY cityHash64(run)
    )
    WHERE $conditions
)
GROUP BY tag
ORDER BY runs DESC, value
LIMIT {values:UInt32} BY kind
