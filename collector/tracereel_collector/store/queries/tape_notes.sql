-- Metadata of some tapes: start, end, problems and number of replayable calls, and the results of
-- re-executions of their runs. The calls themselves are not read.
SELECT
    trace_id,
    JSONExtractString(payload, 'tape_id') AS tape_id,
    JSONExtractUInt(payload, 'part') AS part,
    arrayFilter(
        each -> JSONExtractString(each, 'r') IN ('run', 'problem', 'closed', 'replayed'),
        JSONExtractArrayRaw(payload, 'records') AS records
    ) AS notes,
    arrayCount(
        each -> JSONExtractString(each, 'r') = 'open'
            AND JSONExtractString(each, 'k') IN ('llm', 'tool', 'retrieval')
            AND JSONExtractString(each, 'c') != 'block'
            AND NOT JSONHas(each, 'i'),
        records
    ) AS calls,
    JSONExtractString(payload, 'records', 1, 'r') = 'replayed' AS of_replay
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)} AND event_type = 'agent.tape.recorded'
    AND (of_replay OR has(
        arrayZip({of_traces:Array(String)}, {emitter_ids:Array(String)}, {tape_ids:Array(String)}),
        (trace_id, toString(emitter_id), tape_id)
    ))
ORDER BY of_replay, if(of_replay, hlc, 0), ingested_at, sequence_number
LIMIT 1 BY trace_id, of_replay, if(of_replay, event_id, toString(part))
LIMIT {limit:UInt32}
