-- One page of the events of some runs by their number within the session, as in `session_numbers.sql`.
SELECT number, sequence_number
FROM
(
    SELECT row_number() OVER (ORDER BY hlc, sequence_number) AS number, sequence_number
    FROM
    (
        SELECT hlc, sequence_number
        FROM agent_events
        WHERE tenant = {tenant:String} AND trace_id IN {runs:Array(String)} AND event_type != 'agent.tape.recorded'
        ORDER BY hlc, sequence_number
        LIMIT 1 BY trace_id, event_id
    )
)
WHERE number > {after:UInt64}
ORDER BY number
LIMIT {limit:UInt32}
