-- Numbers of the emitters after one, as intervals (1-40,42-42), in pages.
WITH
    bitmapToArray(groupBitmapMergeState(numbers)) AS seen,
    arrayDifference(seen) AS steps,
    arrayFilter((number, step) -> step != 1, seen, steps) AS firsts,
    arrayFilter((number, step) -> step != 1, seen, arrayPushBack(arrayPopFront(steps), 0)) AS lasts
SELECT
    toString(tenant) AS of_tenant,
    emitter_id,
    arrayStringConcat(arrayMap((a, b) -> concat(toString(a), '-', toString(b)), firsts, lasts), ',') AS intervals
FROM emitter_numbers
WHERE (tenant, emitter_id) > ({tenant:String}, {emitter_id:String})
GROUP BY tenant, emitter_id
ORDER BY tenant, emitter_id
LIMIT {page:UInt32}
