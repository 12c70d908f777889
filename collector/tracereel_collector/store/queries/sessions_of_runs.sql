-- Sessions of some runs.
SELECT DISTINCT substring(tag, 9) AS session
FROM trace_summaries
ARRAY JOIN tags AS tag
WHERE tenant = {tenant:String} AND trace_id IN {ids:Array(String)} AND startsWith(tag, 'session:')
