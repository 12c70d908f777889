-- When some emitters were last heard of, and whether they are known to have ended.
SELECT emitter_id, state, toUnixTimestamp64Nano(received_at), interval_seconds
FROM emitters FINAL
WHERE tenant = {tenant:String} AND emitter_id IN {emitters:Array(String)}
