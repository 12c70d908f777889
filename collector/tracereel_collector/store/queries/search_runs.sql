-- The runs that match, in order: ids and what they are sorted by. Fragments in it are our own.
SELECT run, sort_value
FROM
(
    SELECT run, $sort_value AS sort_value, $columns
    FROM ($rows) AS s
    GROUP BY run
)
WHERE $conditions
ORDER BY sort_value $direction, run $direction
LIMIT {limit:UInt32}
