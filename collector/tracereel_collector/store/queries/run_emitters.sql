-- Some emitters of a tenant: state and number of missing events.
SELECT
    emitter_id,
    if(told.state = 'alive' AND {now:Int64} > toUnixTimestamp64Milli(told.received_at) + 3000 * told.interval_seconds,
       'silent', if(told.state = '', 'unknown', told.state)) AS state,
    if(told.service = '', seen.service, told.service) AS service,
    told.host AS host,
    if(told.pid = 0, NULL, told.pid) AS pid,
    if(told.state = '', NULL, formatDateTime(told.received_at, '%Y-%m-%dT%H:%i:%S.%fZ')) AS last_heartbeat,
    seen.highest AS claimed,
    seen.stored AS stored,
    toUInt64(greatest(0, toInt64(claimed) - toInt64(seen.stored) - toInt64(seen.refused))) AS missing,
    told.spooled AS spooled,
    told.dropped AS dropped,
    if(told.state = '', NULL, toUnixTimestamp64Nano(told.sent_at) - toUnixTimestamp64Nano(told.received_at))
        AS clock_ahead_nano
FROM
(
    SELECT * FROM emitters FINAL
    WHERE tenant = {tenant:String} AND emitter_id IN {emitter_ids:Array(String)}
) AS told
FULL OUTER JOIN
(
    SELECT
        emitter_id,
        max(emitter_numbers.service) AS service,
        groupBitmapMergeState(numbers) AS merged,
        bitmapCardinality(merged) AS stored,
        max(emitter_numbers.claimed) AS highest,
        max(emitter_numbers.rejected) AS refused
    FROM emitter_numbers
    WHERE tenant = {tenant:String} AND emitter_id IN {emitter_ids:Array(String)}
    GROUP BY emitter_id
) AS seen USING (emitter_id)
ORDER BY emitter_id
