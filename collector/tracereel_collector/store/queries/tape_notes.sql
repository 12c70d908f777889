-- Metadata of some tapes: start, end, problems and number of replayable calls, and the results of
-- re-executions of their runs. The calls themselves are not returned.
SELECT
    trace_id,
    tape_id,
    part,
    arrayFilter(each -> JSONExtractString(each, 'r') IN ('run', 'problem', 'closed', 'replayed'), records) AS notes,
    arrayCount(
        each -> JSONExtractString(each, 'r') = 'open'
            AND JSONExtractString(each, 'k') IN ('llm', 'tool', 'retrieval')
            AND JSONExtractString(each, 'c') != 'block'
            AND NOT JSONHas(each, 'i'),
        records
    ) AS calls,
    of_replay
FROM
(
    SELECT
        trace_id, emitter_id, event_id, hlc, ingested_at, sequence_number,
        JSONExtractString(payload, 'tape_id') AS tape_id,
        JSONExtractUInt(payload, 'part') AS part,
        JSONExtractBool(payload, 'replayed') OR JSONExtractString(payload, 'records', 1, 'r') = 'replayed' AS of_replay,
        JSONExtractArrayRaw(if(content_bytes = 0, payload, large.content), 'records') AS records
    FROM agent_events
    GLOBAL LEFT JOIN
    (
        SELECT sequence_number, content
        FROM event_content
        WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)} AND event_type = 'agent.tape.recorded'
    ) AS large ON agent_events.sequence_number = large.sequence_number
    WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)} AND event_type = 'agent.tape.recorded'
)
WHERE of_replay OR has(
    arrayZip({of_traces:Array(String)}, {emitter_ids:Array(String)}, {tape_ids:Array(String)}),
    (trace_id, toString(emitter_id), tape_id)
)
ORDER BY of_replay, if(of_replay, hlc, 0), ingested_at, sequence_number
LIMIT 1 BY trace_id, of_replay, if(of_replay, event_id, toString(part))
LIMIT {limit:UInt32}
