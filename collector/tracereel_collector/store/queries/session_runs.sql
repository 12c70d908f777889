-- Runs of a session, in order.
SELECT trace_id, toUnixTimestamp64Nano(min(started)) AS start
FROM trace_summaries
WHERE tenant = {tenant:String} AND hasAny(tags, {session_tags:Array(String)})
GROUP BY trace_id
ORDER BY start, trace_id
LIMIT {limit:UInt32}
