-- Prices per token of each called model in nanodollars, with their start times and times of day, oldest first.
-- The name ends in the class of the prompt's size; a class has a price of its own if the model has tiers below.
SELECT toJSONString(mapFromArrays(groupArray(name), groupArray(since)))
FROM
(
    SELECT
        concat(toString(Provider), '\t', left(toString(Model), 256), '\t', price.1, toString(class)) AS name,
        arraySort(groupArray((toUnixTimestamp(ValidFrom), second, price.2 * 1000))) AS since
    FROM
    (
        SELECT
            Provider, Model, ValidFrom, class, second,
            if(class = 0, -1, toInt64($price_thresholds[class])) AS bound,
            arrayLast(each -> each.second = second AND each.above <= bound, Cases) AS found
        FROM
        (
            SELECT
                Provider, Model, ValidFrom,
                if(empty(all_cases.Cases), [(0, -1, Input, CacheRead, CacheWrite, Output)], all_cases.Cases)
                    ::Array(Tuple(second UInt32, above Int64, input Float64, cache_read Float64,
                        cache_write Float64, output Float64)) AS Cases,
                max(arrayMax(arrayMap(each -> each.above, Cases))) OVER (PARTITION BY Provider, Model) >= 0 AS has_tiers,
                min(arrayMin(arrayMap(each -> if(each.above < 0, 9223372036854775807, each.above), Cases)))
                    OVER (PARTITION BY Provider, Model) AS lowest
            FROM priced_models AS all_cases
        )
        ARRAY JOIN
            arrayFilter(n -> n = 0 OR (has_tiers AND $price_thresholds[n] >= lowest), range(10)) AS class
        ARRAY JOIN arrayDistinct(arrayMap(each -> each.second, Cases)) AS second
    )
    ARRAY JOIN [('input', found.input), ('cache_read', found.cache_read),
                ('cache_write', found.cache_write), ('output', found.output)] AS price
    GROUP BY name
)
