-- Emitters of a tenant with their claimed, stored and missing events.
SELECT
    emitter_id,
    if(told.state = 'alive' AND {now:Int64} > toUnixTimestamp64Milli(told.received_at) + 3000 * told.interval_seconds,
       'silent', if(told.state = '', 'unknown', told.state)) AS state,
    if(told.service = '', seen.service, told.service) AS service,
    told.host AS host,
    if(told.pid = 0, NULL, told.pid) AS pid,
    told.sdk_version AS sdk_version,
    formatDateTime(told.started_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS started,
    if(told.state = '', NULL, formatDateTime(told.received_at, '%Y-%m-%dT%H:%i:%S.%fZ')) AS last_heartbeat,
    if(seen.stored = 0, NULL, formatDateTime(seen.last_at, '%Y-%m-%dT%H:%i:%S.%fZ')) AS last_event,
    if(told.state = '', NULL, told.interval_seconds) AS interval,
    seen.highest AS claimed,
    seen.stored AS stored,
    seen.refused AS refused,
    -- Refused events have numbers but no rows.
    toUInt64(greatest(0, toInt64(claimed) - toInt64(seen.stored) - toInt64(seen.refused))) AS missing,
    told.spooled AS spooled,
    told.dropped AS dropped
FROM
(
    SELECT * FROM emitters FINAL
    WHERE tenant = {tenant:String}
      AND ({emitter_id:String} = '' OR emitter_id = {emitter_id:String})
) AS told
FULL OUTER JOIN
(
    SELECT
        emitter_id,
        max(emitter_numbers.service) AS service,
        max(emitter_numbers.last_at) AS last_at,
        groupBitmapMergeState(numbers) AS merged,
        bitmapCardinality(merged) AS stored,
        max(emitter_numbers.claimed) AS highest,
        max(emitter_numbers.rejected) AS refused
    FROM emitter_numbers
    WHERE tenant = {tenant:String}
      AND ({emitter_id:String} = '' OR emitter_id = {emitter_id:String})
    GROUP BY emitter_id
) AS seen USING (emitter_id)
WHERE ({state:String} = '' OR state = {state:String})
  AND ({service:String} = '' OR service = {service:String})
ORDER BY greatest(told.received_at, seen.last_at) DESC, emitter_id
LIMIT {limit:UInt32}
