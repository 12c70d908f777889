-- Names of attributes of recent spans of models, tools and agents that no dialect reads; numbers in them as N.
SELECT
    ScopeName AS scope,
    name,
    count() AS spans,
    arraySort(groupUniqArray(8)(toString(CallKind))) AS kinds,
    formatDateTime(max(IngestedAt), '%Y-%m-%dT%H:%i:%S.%fZ') AS last_at
FROM
(
    SELECT
        left(ScopeName, 120) AS ScopeName,
        CallKind,
        IngestedAt,
        arrayDistinct(arrayMap(
            k -> left(replaceRegexpAll(k, '[.][0-9]+', '.N'), 120),
            arrayFilter(
                k -> NOT has($known_names, k) AND NOT match(k, $known_prefixes),
                arrayMap(k -> toString(k), arrayConcat(mapKeys(SpanAttributes), mapKeys(ContentAttributes)))
            )
        )) AS names
    FROM otel_spans
    WHERE TenantId = {tenant:String} AND IngestedAt >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')
      AND Source = 'otlp' AND ScopeName != 'tracereel' AND CallKind IN $looked_at_kinds
    LIMIT {most_spans:UInt32}
)
ARRAY JOIN names AS name
GROUP BY scope, name
ORDER BY spans DESC, scope, name
LIMIT {limit:UInt32}
SETTINGS max_rows_to_group_by = 10000, group_by_overflow_mode = 'any'
