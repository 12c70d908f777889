-- The names of a tenant's services; a span without one belongs to the one Jaeger would give it.
SELECT DISTINCT if(ServiceName = '', {nameless:String}, ServiceName) AS name
FROM span_names
WHERE TenantId = {tenant:String}
ORDER BY name
LIMIT {limit:UInt32}
