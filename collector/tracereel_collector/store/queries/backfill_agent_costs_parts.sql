-- Months of arrival and days of calls that may be from before their unpriced tokens were summed up.
SELECT concat(toString(month), ' ', toString(toDate(minute))) AS part, sum(model_calls) AS calls
FROM agent_minutes
WHERE month <= (SELECT toStartOfMonth(toDate(max(applied_at), 'UTC')) FROM schema_migrations WHERE number = 34)
GROUP BY part
HAVING calls > 0 AND part NOT IN (SELECT part FROM backfills WHERE what = {what:String})
ORDER BY part DESC
