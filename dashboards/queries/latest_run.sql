-- The newest runs first: one is always chosen.
SELECT trace_id FROM trace_summaries
WHERE hour >= toStartOfHour($__fromTime) AND hour <= $__toTime
GROUP BY trace_id ORDER BY max(ended) DESC LIMIT 200
