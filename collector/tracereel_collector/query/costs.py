"""What runs cost, as SQL over their summaries: as was sent, and the rest by the price of the day."""

from typing import Final

from tracereel_collector.store.sql import query

_PRICES: Final = query("prices_by_token").strip()


def _priced(tokens: str) -> str:
    """SQL for nanodollars of tokens by model; a model without a price adds nothing."""
    price = f"arrayLast(since -> since.1 <= s.hour, ({_PRICES})[name]).2"
    each = f"arraySum((name, tokens) -> tokens * {price}, mapKeys({tokens}), mapValues({tokens}))"
    return f"toInt64(round(sum({each})))"


def _finest(calls: str, spans: str) -> str:
    """Model calls are the finest grain there is; executions speak only where there are none."""
    return f"multiIf({calls} != 0, {calls}, {spans} != 0, {spans}, sum(s.execution_nano_usd))"


SENT_NANO_USD: Final = _finest("sum(s.call_nano_usd)", "sum(s.span_nano_usd)")
"""Where every cost was sent: prices take the store some 30 ms to find."""
NANO_USD: Final = _finest(
    f"(sum(s.call_nano_usd) + {_priced('s.call_unpriced')})",
    f"(sum(s.span_nano_usd) + {_priced('s.span_unpriced')})",
)
COST: Final = "$nano_usd"
"""Stands for one of the two, until it is known which."""


def with_costs(statement: str, *, unpriced: bool) -> str:
    """A statement over runs; `unpriced` says whether tokens without a cost are among them."""
    return statement.replace(COST, NANO_USD if unpriced else SENT_NANO_USD)
