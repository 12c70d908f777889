-- How many of the runs that match began in each step of the window, and how many of them failed.
SELECT intDiv(started - {from:Int64}, {step:Int64}) AS bucket, count() AS runs, countIf(status = 'failed') AS failed
FROM
(
    SELECT run, $columns
    FROM ($rows) AS s
    GROUP BY run
)
WHERE $conditions
GROUP BY bucket
ORDER BY bucket
