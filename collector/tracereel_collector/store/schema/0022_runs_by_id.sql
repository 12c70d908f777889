-- A run is in one or a few parts, and any part may have it by its range of ids: those that have not
-- are left out without being read.
ALTER TABLE agent_events ADD INDEX IF NOT EXISTS by_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1;

ALTER TABLE agent_events MATERIALIZE INDEX by_trace;
