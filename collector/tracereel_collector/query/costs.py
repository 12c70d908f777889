"""SQL for the cost of runs: reported, or calculated from prices; models without a price."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from string import Template
from typing import Any, Final

from tracereel_collector.errors import CollectorError
from tracereel_collector.query.store_reader import StoreReader
from tracereel_collector.store.price_names import PriceStore, find_prices
from tracereel_collector.store.price_sql import FRAGMENTS
from tracereel_collector.store.sql import query

MAX_BOUND: Final = 16_384
"""Maximum length of a bound price list; longer ones are read by a subquery."""
MAX_UNPRICED: Final = 5
"""Models without a price that are named beside a cost."""
_FIRST_CLASS: Final = "concat(substring(name, 1, length(name) - 1), '0')"


def _known(prices: str) -> str:
    return f"JSONExtract({prices}, 'Map(String, Array(Tuple(UInt32, UInt32, Float64)))')"


def _priced(tokens: str, prices: str, at: str = "s.hour") -> str:
    """Return SQL for the nanodollars of tokens by model; models without a price add 0."""
    known = _known(prices)
    # The last character is the class of the prompt's size: without tiers, all cost as the first.
    tiered = f"arrayFilter(name -> NOT endsWith(name, '0'), mapKeys({known}))"
    key = f"if(has({tiered}, name), name, {_FIRST_CLASS})"
    began = f"since.1 <= toUnixTimestamp({at}) AND since.2 <= toUnixTimestamp({at}) % 86400"
    price = f"arrayLast(since -> {began}, {known}[{key}]).3"
    each = f"arraySum((name, tokens) -> tokens * {price}, mapKeys({tokens}), mapValues({tokens}))"
    return f"toInt64(round(sum({each})))"


def _unpriced(tokens: str, prices: str) -> str:
    """Return SQL for the models without a price, and the tokens of each."""
    lacking = f"""arrayFilter(name -> NOT has(mapKeys({_known(prices)}), {_FIRST_CLASS}),
        mapKeys({tokens}))"""
    model = r"replaceRegexpOne(name, '(?s)^[^\t]*\t(.*)\t[^\t]*$', '\\1')"
    models = f"arrayMap(name -> {model}, {lacking})"
    counts = f"arrayMap(name -> toInt64({tokens}[name]), {lacking})"
    return f"CAST(sumMap({models}, {counts}), 'Map(String, Int64)')"


def finest(calls: str, spans: str, executions: str) -> str:
    """Return SQL for the sums of calls by events and spans, else for those by executions.

    Until a trace is settled, its spans may describe calls of events: then events count alone.
    """
    return (
        f"multiIf(sum(s.settled) != 0 AND {calls} + {spans} != 0, {calls} + {spans},"
        f" {calls} != 0, {calls}, {spans} != 0, {spans}, {executions})"
    )


_EXECUTIONS: Final = "sum(s.execution_nano_usd)"


def _with_prices(prices: str) -> str:
    return finest(
        f"(sum(s.call_nano_usd) + {_priced('s.call_unpriced', prices)})",
        f"(sum(s.span_nano_usd) + {_priced('s.span_unpriced', prices)})",
        _EXECUTIONS,
    )


_SENT: Final = finest("sum(s.call_nano_usd)", "sum(s.span_nano_usd)", _EXECUTIONS)
_BOUND: Final = "{prices:String}"
_BY_TOKEN: Final = Template(query("prices_by_token")).substitute(FRAGMENTS)
_FOUND: Final = f"assumeNotNull(({_BY_TOKEN.strip()}))"
NANO_USD: Final = _with_prices(_FOUND)
"""Cost with prices from a subquery, which takes the store about 40 ms."""
REFRESH_SECONDS: Final = 5.0
"""Age at which the count of calls without a price is read again."""
COST: Final = "$nano_usd"
"""Placeholder that is replaced by the actual cost expression."""
UNPRICED: Final = "$unpriced"
"""Placeholder for the models without a price and their tokens."""
_NONE_UNPRICED: Final = "CAST(map(), 'Map(String, Int64)')"


@dataclass(frozen=True, slots=True)
class Costs:
    """Way in which a statement over runs calculates costs."""

    prices: str | None = None
    """SQL for the prices; `None`: only reported costs count."""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def put_into(self, statement: str) -> str:
        """Return the statement with the cost expression filled in."""
        if self.prices is None:
            return statement.replace(COST, _SENT).replace(UNPRICED, _NONE_UNPRICED)
        calls = _unpriced("s.call_unpriced", self.prices)
        spans = _unpriced("s.span_unpriced", self.prices)
        unpriced = (
            f"multiIf(sum(s.settled) != 0, mapAdd({calls}, {spans}),"
            f" sum(s.call_tokens) != 0, {calls}, {spans})"
        )
        return statement.replace(COST, _with_prices(self.prices)).replace(UNPRICED, unpriced)

    def of_tokens(self, tokens: str, *, at: str) -> str:
        """Return SQL for the calculated cost of tokens without a reported cost; at least 0."""
        if self.prices is None:
            return "toInt64(0)"
        # Rows from before the rollup existed may have been subtracted without being added.
        return f"greatest({_priced(tokens, self.prices, at)}, 0)"

    def unpriced(self, tokens: str) -> str:
        """Return SQL for the models without a price among tokens, and the tokens of each."""
        return _NONE_UNPRICED if self.prices is None else _unpriced(tokens, self.prices)


def shown_unpriced(tokens: Mapping[str, int]) -> dict[str, Any]:
    """Return how many tokens have no price, and the models that most of them are of."""
    known = sorted((-many, name) for name, many in tokens.items() if many > 0)
    return {
        "unpriced_tokens": -sum(many for many, _ in known),
        "unpriced_models": [name for _, name in known[:MAX_UNPRICED]],
    }


class Prices:
    """Cache of token prices of all models called, refreshed when prices or models change."""

    def __init__(self, store: PriceStore) -> None:
        self._store = store
        self._known: tuple[bytes, Costs] | None = None

    def costs(self) -> Costs:
        """Return the cost calculation for runs with calls that lack a reported cost."""
        state = self._store.select(query("prices_state"), {}, fmt="TabSeparated")
        if self._known is None or self._known[0] != state:
            find_prices(self._store)
            found = self._store.select(_BY_TOKEN, {}, fmt="TabSeparatedRaw")
            prices = found.decode().strip()
            bound = len(prices) <= MAX_BOUND
            made = Costs(_BOUND, {"prices": prices}) if bound else Costs(_FOUND)
            self._known = state, made
        return self._known[1]


class UnpricedModels:
    """Count of model calls without a known price, refreshed in the background."""

    def __init__(self, store: StoreReader, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._reading = False
        self._read_at = float("-inf")
        self._last = 0

    def calls(self) -> int:
        """Return the number of model calls of all tenants without a known price."""
        with self._lock:
            stale = not self._reading and self._clock() - self._read_at > REFRESH_SECONDS
            self._reading = self._reading or stale
        if stale:
            threading.Thread(target=self._read, name="unpriced-models", daemon=True).start()
        return self._last

    def _read(self) -> None:
        try:
            found = int(self._store.select(query("unpriced_calls"), {}, fmt="TabSeparated"))
        except CollectorError:
            found = self._last  # the store is unreachable; a later request retries
        with self._lock:
            self._last, self._read_at, self._reading = found, self._clock(), False
