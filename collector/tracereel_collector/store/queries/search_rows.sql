SELECT s.*, s.trace_id AS run
FROM trace_summaries AS s
$first
WHERE s.tenant = {tenant:String} AND s.hour >= {first_hour:DateTime('UTC')} AND s.hour <= {last_hour:DateTime('UTC')}
