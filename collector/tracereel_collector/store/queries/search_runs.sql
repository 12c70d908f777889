-- Matching runs in order: ids and sort values. The inserted fragments are constants of ours.
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
