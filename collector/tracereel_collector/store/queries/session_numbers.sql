-- Numbers of the events of some runs within their session: gap-free, in causal order, from 1.
-- They are derived, so that they stay the same once all events of the runs have arrived.
SELECT trace_id, min(number), max(number), count()
FROM
(
    SELECT trace_id, row_number() OVER (ORDER BY hlc, sequence_number) AS number
    FROM
    (
        SELECT trace_id, hlc, sequence_number
        FROM agent_events
        WHERE tenant = {tenant:String} AND trace_id IN {runs:Array(String)} AND event_type != 'agent.tape.recorded'
        ORDER BY hlc, sequence_number
        LIMIT 1 BY trace_id, event_id
    )
)
GROUP BY trace_id
