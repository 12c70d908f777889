-- Sums by agent and time step within a window.
-- Whole hours are read from the hourly table, the remainders at both ends from the minutely one, and model
-- calls of spans one by one.
SELECT
    agent,
    intDiv(toUnixTimestamp(minute) - {origin:Int64}, {step:Int64}) AS bucket,
    $sums
FROM
(
    SELECT * FROM agent_hours
    WHERE tenant = {tenant:String} AND ({agent:String} = '' OR agent = {agent:String})
      AND minute >= toDateTime({first_hour:Int64}, 'UTC') AND minute < toDateTime({last_hour:Int64}, 'UTC')
    UNION ALL
    SELECT * FROM agent_minutes
    WHERE tenant = {tenant:String} AND ({agent:String} = '' OR agent = {agent:String})
      AND minute >= toDateTime({from:Int64}, 'UTC') AND minute < toDateTime({to:Int64}, 'UTC')
      AND NOT (minute >= toDateTime({first_hour:Int64}, 'UTC') AND minute < toDateTime({last_hour:Int64}, 'UTC'))
    UNION ALL
    SELECT * EXCEPT (day) FROM agent_calls
    WHERE tenant = {tenant:String} AND agent != '' AND ({agent:String} = '' OR agent = {agent:String})
      AND day >= {first_day:Date}
      AND minute >= toDateTime({from:Int64}, 'UTC') AND minute < toDateTime({to:Int64}, 'UTC')
) AS a
GROUP BY agent, bucket
ORDER BY agent, bucket
LIMIT {limit:UInt32}
