-- What some runs cost together, as the list of runs has it.
SELECT $nano_usd
FROM trace_summaries AS s
WHERE s.tenant = {tenant:String} AND s.trace_id IN {trace_ids:Array(String)}
  AND s.hour >= toStartOfHour(fromUnixTimestamp64Nano({began:Int64}, 'UTC'))
  AND s.hour <= fromUnixTimestamp64Nano({ended:Int64}, 'UTC')
