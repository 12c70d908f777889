-- Tapes of some runs, one per emitter, the root tape first.
-- The owner of a run is the emitter whose event arrived first: the collector assigns arrival times and
-- sequence numbers, so a later sender cannot take over a run, whatever parents its events name.
WITH
    owners AS (
        SELECT trace_id, argMin(emitter_id, (ingested_at, sequence_number)) AS owner
        FROM agent_events
        WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)} AND emitter_id != ''
        GROUP BY trace_id
    ),
    tapes AS (
        SELECT
            trace_id,
            emitter_id,
            min((ingested_at, sequence_number)) AS arrived,
            argMin(JSONExtractString(payload, 'tape_id'), (ingested_at, sequence_number)) AS tape_id
        FROM agent_events
        WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)} AND event_type = 'agent.tape.recorded'
            AND NOT (JSONExtractBool(payload, 'replayed') OR JSONExtractString(payload, 'records', 1, 'r') = 'replayed')
        GROUP BY trace_id, emitter_id
    )
SELECT tapes.trace_id, tapes.emitter_id, tapes.tape_id
FROM tapes
LEFT JOIN owners ON tapes.trace_id = owners.trace_id
ORDER BY tapes.trace_id, tapes.emitter_id = owners.owner DESC, tapes.arrived
LIMIT {limit:UInt32} BY tapes.trace_id
