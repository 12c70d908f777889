-- Text around the first searched word or phrase, for each trace; of several texts, from the one with most of them.
-- Words are found as the index does: what is neither a letter nor a digit separates them.
SELECT trace_id, argMax(passage, (matched, passage))
FROM
(
    SELECT
        trace_id,
        concat(' ', replaceRegexpAll(lowerUTF8(text), '[\\x00-\\x2f\\x3a-\\x60\\x7b-\\x7f]', ' '), ' ') AS plain,
        arrayConcat(
            arrayMap(w -> positionUTF8(plain, concat(' ', w, ' ')), {words:Array(String)}),
            arrayMap(p -> positionCaseInsensitiveUTF8(text, p), {phrases:Array(String)})) AS places,
        arrayFilter(p -> p > 0, places) AS hits,
        length(hits) AS matched,
        greatest(1, toInt64(arrayMin(hits)) - {before:UInt32}) AS first,
        concat(
            if(first > 1, '…', ''),
            substringUTF8(text, first, {length:UInt32}),
            if(lengthUTF8(text) >= first + {length:UInt32}, '…', '')) AS passage
    FROM trace_texts
    WHERE tenant = {tenant:String} AND hour >= {first_hour:DateTime('UTC')} AND hour <= {last_hour:DateTime('UTC')}
      AND trace_id IN {traces:Array(String)} AND hasAnyTokens(text, {tokens:Array(String)})
)
WHERE matched > 0
GROUP BY trace_id
