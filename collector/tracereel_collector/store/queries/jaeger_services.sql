-- Names of a tenant's services. Spans without one get Jaeger's default name.
SELECT DISTINCT if(ServiceName = '', {nameless:String}, ServiceName) AS name
FROM span_names
WHERE TenantId = {tenant:String}
ORDER BY name
LIMIT {limit:UInt32}
