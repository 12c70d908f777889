-- Those of some sessions that have other runs than these.
SELECT DISTINCT substring(tag, 9) AS session
FROM trace_summaries
ARRAY JOIN tags AS tag
WHERE tenant = {tenant:String} AND trace_id NOT IN {ids:Array(String)}
  AND hasAny(tags, arrayMap(name -> concat('session:', name), {sessions:Array(String)}))
  AND startsWith(tag, 'session:') AND session IN {sessions:Array(String)}
