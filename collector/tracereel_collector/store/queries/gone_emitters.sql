-- Which of some emitters have ended with all events stored, or were silent for three intervals, and their last heartbeat.
-- The final heartbeat may arrive before the last events: claimed events not stored yet are in transit.
SELECT emitter_id, toUnixTimestamp64Nano(last_at) AS heard
FROM
(
    SELECT
        emitter_id,
        argMax(e.state, e.received_at) AS last_state,
        max(e.received_at) AS last_at,
        argMax(e.interval_seconds, e.received_at) AS pause
    FROM emitters AS e
    WHERE tenant = {tenant:String} AND emitter_id IN {emitters:Array(String)}
    GROUP BY emitter_id
) AS told
LEFT JOIN
(
    SELECT
        emitter_id,
        groupBitmapMergeState(numbers) AS merged,
        toInt64(max(n.claimed)) - toInt64(bitmapCardinality(merged)) - toInt64(max(n.rejected)) AS missing
    FROM emitter_numbers AS n
    WHERE tenant = {tenant:String} AND emitter_id IN {emitters:Array(String)}
    GROUP BY emitter_id
) AS seen USING (emitter_id)
WHERE if(last_state = 'alive', {now:Int64} > toUnixTimestamp64Milli(last_at) + 3000 * pause, missing <= 0)
