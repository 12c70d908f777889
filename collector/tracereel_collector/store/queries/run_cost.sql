-- Total cost of some runs, as shown in the list of runs.
SELECT $nano_usd
FROM trace_summaries AS s
WHERE s.tenant = {tenant:String} AND s.trace_id IN {trace_ids:Array(String)}
  AND s.hour >= toStartOfHour(fromUnixTimestamp64Nano({began:Int64}, 'UTC'))
  AND s.hour <= fromUnixTimestamp64Nano({ended:Int64}, 'UTC')
