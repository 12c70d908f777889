"""What runs cost, as SQL over their summaries: as was sent, and the rest by the price of the day."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tracereel_collector.store.sql import query

MAX_BOUND: Final = 16_384
"""Characters of prices that are sent along with a question; more of them are left to be looked up."""


def _priced(tokens: str, prices: str, at: str = "s.hour") -> str:
    """SQL for nanodollars of tokens by model; a model without a price adds nothing."""
    known = f"JSONExtract({prices}, 'Map(String, Array(Tuple(UInt32, Float64)))')"
    price = f"arrayLast(since -> since.1 <= toUnixTimestamp({at}), {known}[name]).2"
    each = f"arraySum((name, tokens) -> tokens * {price}, mapKeys({tokens}), mapValues({tokens}))"
    return f"toInt64(round(sum({each})))"


def _finest(calls: str, spans: str) -> str:
    """Model calls are the finest grain there is; executions speak only where there are none."""
    return f"multiIf({calls} != 0, {calls}, {spans} != 0, {spans}, sum(s.execution_nano_usd))"


def _with_prices(prices: str) -> str:
    return _finest(
        f"(sum(s.call_nano_usd) + {_priced('s.call_unpriced', prices)})",
        f"(sum(s.span_nano_usd) + {_priced('s.span_unpriced', prices)})",
    )


_SENT: Final = _finest("sum(s.call_nano_usd)", "sum(s.span_nano_usd)")
_BOUND: Final = "{prices:String}"
_FOUND: Final = f"assumeNotNull(({query('prices_by_token').strip()}))"
NANO_USD: Final = _with_prices(_FOUND)
"""With prices that the statement finds by itself, which takes the store some 40 ms."""
COST: Final = "$nano_usd"
"""Stands for one of them, until it is known which."""


class Selects(Protocol):
    """What is asked for prices."""

    def select(self, statement: str, parameters: Mapping[str, Any], *, fmt: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Costs:
    """How a statement over runs works out what they cost."""

    prices: str | None = None
    """SQL for them; without, costs are those that were sent."""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def put_into(self, statement: str) -> str:
        """The statement with it."""
        nano_usd = _SENT if self.prices is None else _with_prices(self.prices)
        return statement.replace(COST, nano_usd)

    def of_tokens(self, tokens: str, *, at: str) -> str:
        """SQL for what a sum of tokens cost that nobody sent a cost of; never less than nothing."""
        if self.prices is None:
            return "toInt64(0)"
        # Of what was stored before they were summed up, some may have been taken away already.
        return f"greatest({_priced(tokens, self.prices, at)}, 0)"


class Prices:
    """What tokens cost of every model that was called: found once, and again when anything has changed."""

    def __init__(self, store: Selects) -> None:
        self._store = store
        self._known: tuple[bytes, Costs] | None = None

    def costs(self) -> Costs:
        """For runs with model calls of which nobody said what they cost."""
        state = self._store.select(query("prices_state"), {}, fmt="TabSeparated")
        if self._known is None or self._known[0] != state:
            found = self._store.select(query("prices_by_token"), {}, fmt="TabSeparatedRaw")
            prices = found.decode().strip()
            bound = len(prices) <= MAX_BOUND
            made = Costs(_BOUND, {"prices": prices}) if bound else Costs(_FOUND)
            self._known = state, made
        return self._known[1]
