-- Runs with a decision that meets all conditions.
SELECT trace_id
FROM agent_events
WHERE tenant = {tenant:String} AND toDate(ingested_at) >= {first_day:Date}
  AND event_type = 'agent.decision.recorded'
  AND (empty({decision_types:Array(String)}) OR has({decision_types:Array(String)}, toString(decision_type)))
  AND (empty({decision_categories:Array(String)})
      OR has({decision_categories:Array(String)}, toString(decision_category)))
  AND (empty({decision_agents:Array(String)}) OR has({decision_agents:Array(String)}, toString(agent_name)))
  AND (empty({decisions_chosen:Array(String)}) OR has({decisions_chosen:Array(String)}, chosen))
  AND ({decision_bounded:UInt8} = 0
      OR confidence BETWEEN {min_decision_confidence:Float64} AND {max_decision_confidence:Float64})
  AND ({below_threshold:UInt8} = 0 OR confidence < threshold)
