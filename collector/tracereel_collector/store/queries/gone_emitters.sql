-- Which of some emitters have ended, or have not spoken for three of their intervals.
SELECT emitter_id
FROM emitters FINAL
WHERE tenant = {tenant:String} AND emitter_id IN {emitters:Array(String)}
  AND (state != 'alive' OR {now:Int64} > toUnixTimestamp64Milli(received_at) + 3000 * interval_seconds)
