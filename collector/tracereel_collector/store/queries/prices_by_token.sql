-- Prices per token of each called model in nanodollars, with their start times, oldest first.
SELECT toJSONString(mapFromArrays(groupArray(name), groupArray(since)))
FROM
(
    SELECT
        concat(toString(Provider), '\t', left(toString(Model), 256), '\t', price.1) AS name,
        arraySort(groupArray((toUnixTimestamp(ValidFrom), price.2 * 1000))) AS since
    FROM priced_models
    ARRAY JOIN [('input', Input), ('cache_read', ifNull(CacheRead, Input)),
                ('cache_write', ifNull(CacheWrite, Input)), ('output', Output)] AS price
    GROUP BY name
)
