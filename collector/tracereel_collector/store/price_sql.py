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

_CASE: Final = """if(empty(p.Cases), (0, -1, p.Input, p.CacheRead, p.CacheWrite, p.Output),
            arrayLast(each -> each.second <= toUnixTimestamp(c.Timestamp) % 86400
                AND each.above < toInt64(assumeNotNull(c.PromptTokens)), p.Cases))"""
# The case is written four times and evaluated once.
COST: Final = f"""(
            greatest(toFloat64(assumeNotNull(c.PromptTokens)) - ifNull(c.CacheReadTokens, 0)
                - ifNull(c.CacheWriteTokens, 0), 0) * tupleElement({_CASE}, 3)
            + ifNull(c.CacheReadTokens, 0) * tupleElement({_CASE}, 4)
            + ifNull(c.CacheWriteTokens, 0) * tupleElement({_CASE}, 5)
            + ifNull(c.CompletionTokens, 0) * tupleElement({_CASE}, 6)
        ) / 1000000"""
"""Dollars of a call `c` by its prices `p`."""

FRAGMENTS: Final = {
    "price_rule_holds": RULE_HOLDS,
    "calculated_cost": COST,
    "price_thresholds": repr(list(THRESHOLDS)),
}
"""Values of `$name` in the `.sql` files."""
