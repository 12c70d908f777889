-- State and last heartbeat of some emitters, and the number of their events still in transit.
SELECT
    emitter_id,
    told.state,
    toUnixTimestamp64Nano(told.received_at),
    told.interval_seconds,
    toInt64(seen.highest) - toInt64(seen.stored) - toInt64(seen.refused) AS missing
FROM
(
    SELECT emitter_id, state, received_at, interval_seconds FROM emitters FINAL
    WHERE tenant = {tenant:String} AND emitter_id IN {emitters:Array(String)}
) AS told
LEFT JOIN
(
    SELECT
        emitter_id,
        groupBitmapMergeState(numbers) AS merged,
        bitmapCardinality(merged) AS stored,
        max(emitter_numbers.claimed) AS highest,
        max(emitter_numbers.rejected) AS refused
    FROM emitter_numbers
    WHERE tenant = {tenant:String} AND emitter_id IN {emitters:Array(String)}
    GROUP BY emitter_id
) AS seen USING (emitter_id)
