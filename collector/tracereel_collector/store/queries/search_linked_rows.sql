SELECT
    s.*,
    -- Spans of other instrumentations belong to the run of their OpenTelemetry trace.
    if(l.owner = '', s.trace_id, l.owner) AS run
FROM trace_summaries AS s
GLOBAL LEFT ANY JOIN
(
    SELECT arrayJoin(otel_trace_ids) AS otel_trace_id, argMin(trace_id, started) AS owner
    FROM trace_summaries
    WHERE tenant = {tenant:String} AND hour >= {first_hour:DateTime('UTC')} AND hour <= {last_hour:DateTime('UTC')}
    GROUP BY otel_trace_id
    -- A trace that is a run itself keeps its rows: a child run in the same trace is not their owner.
    HAVING otel_trace_id GLOBAL NOT IN
    (
        SELECT trace_id
        FROM trace_summaries
        WHERE tenant = {tenant:String} AND hour >= {first_hour:DateTime('UTC')} AND hour <= {last_hour:DateTime('UTC')}
            AND events > 0 AND length(trace_id) = 32
    )
) AS l ON s.trace_id = l.otel_trace_id
WHERE s.tenant = {tenant:String} AND s.hour >= {first_hour:DateTime('UTC')} AND s.hour <= {last_hour:DateTime('UTC')}
