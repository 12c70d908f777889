-- Days of arrival that may have runs from before their unpriced tokens were summed up, the latest first.
SELECT partition, sum(rows)
FROM system.parts
WHERE database = currentDatabase() AND table IN ('agent_events', 'otel_spans') AND active
  AND toDate(partition) <= (SELECT toDate(max(applied_at), 'UTC') FROM schema_migrations WHERE number = 32)
  AND partition NOT IN (SELECT part FROM backfills WHERE what = {what:String})
GROUP BY partition
ORDER BY partition DESC
