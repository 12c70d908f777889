-- What else belongs to a run, asked beside its events: runs that name it as their parent, how many
-- spans others sent of its trace, and the runs of an OpenTelemetry trace of that id.
SELECT
    (SELECT groupUniqArray({most:UInt32})(trace_id) FROM run_links
     WHERE tenant = {tenant:String} AND parent_trace_id IN {trace_ids:Array(String)}) AS children,
    (SELECT count() FROM otel_spans
     WHERE TenantId = {tenant:String} AND TraceId = {otel_trace_id:String} AND Source = 'otlp') AS spans,
    (SELECT groupUniqArray({most:UInt32})(SpanAttributes['trace_id']) FROM otel_spans
     WHERE TenantId = {tenant:String} AND TraceId = {otel_trace_id:String} AND Source = 'event') AS runs
