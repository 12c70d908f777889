-- What the tapes of some runs say of themselves: where each began and ended, what is wrong with it, what came of
-- its re-executions; and how many calls it serves. The calls themselves are left out.
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
    ) AS calls
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)} AND event_type = 'agent.tape.recorded'
ORDER BY hlc, sequence_number
LIMIT 1 BY event_id
LIMIT {limit:UInt32}
