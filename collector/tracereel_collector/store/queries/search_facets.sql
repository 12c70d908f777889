-- How many of the runs that match have each value, the most frequent of each kind first.
SELECT substringIndex(tag, ':', 1) AS kind, substring(tag, length(kind) + 2) AS value, count() AS runs
FROM
(
    SELECT arrayJoin(arrayFilter(t -> substringIndex(t, ':', 1) IN {kinds:Array(String)},
        arrayPushBack(tags, concat('status:', status)))) AS tag
    FROM
    (
        SELECT run, groupUniqArrayArray(200)(s.tags) AS tags, $columns
        FROM ($rows) AS s
        GROUP BY run
    )
    WHERE $conditions
)
GROUP BY tag
ORDER BY runs DESC, value
LIMIT {values:UInt32} BY kind
