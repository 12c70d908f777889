"""SQL of the price table: when a rule holds, which case applies, what a call costs."""

from typing import Final

from tracereel_collector.store.price_rows import THRESHOLDS

RULE_HOLDS: Final = """(r.Equals != '' OR r.Prefix != '' OR r.Suffix != ''
                OR notEmpty(r.Contains) OR notEmpty(r.Patterns))
            AND startsWith(t.text, r.Prefix)
            AND endsWith(t.text, r.Suffix)
            AND arrayAll(part -> position(t.text, part) > 0, r.Contains)
            AND arrayAll(pattern -> match(t.text, pattern), r.Patterns)
            AND NOT arrayExists(pattern -> match(t.text, pattern), r.Against)"""
"""Whether a rule `r` holds for the text of `t`; that it equals the text is left to the join."""

PRICE: Final = """arrayLast(each -> each.second <= toUnixTimestamp(c.Timestamp) % 86400
            AND each.above < toInt64(assumeNotNull(c.PromptTokens)), p.Cases)"""
COST: Final = f"""arraySum(price -> (
            greatest(toFloat64(assumeNotNull(c.PromptTokens)) - ifNull(c.CacheReadTokens, 0)
                - ifNull(c.CacheWriteTokens, 0), 0) * price.input
            + ifNull(c.CacheReadTokens, 0) * price.cache_read
            + ifNull(c.CacheWriteTokens, 0) * price.cache_write
            + ifNull(c.CompletionTokens, 0) * price.output
        ) / 1000000, [{PRICE}])"""
"""Dollars of a call `c` by its prices `p`."""

FRAGMENTS: Final = {
    "price_rule_holds": RULE_HOLDS,
    "calculated_cost": COST,
    "price_thresholds": repr(list(THRESHOLDS)),
}
"""Values of `$name` in the `.sql` files."""
