-- How many of the runs that match have each value, and began in each step of the window: each run is
-- looked at once for all of it. What is counted is a text `kind:value`, the most frequent of a kind first.
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
