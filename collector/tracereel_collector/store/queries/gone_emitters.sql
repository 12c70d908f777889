-- Which of some emitters have ended, or have not spoken for three of their intervals.
SELECT emitter_id
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
)
WHERE last_state != 'alive' OR {now:Int64} > toUnixTimestamp64Milli(last_at) + 3000 * pause
