"""Cost of changed prompts, compared with that of the recorded ones."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tracereel.fleet.prices import EstimatePrices, PricedTokens
from tracereel.fleet.prompts import PromptChange, merged


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Tokens and cost of changed prompts, at the prices of today."""

    calls: int
    uncounted: int
    """Calls of which no tokens are known; they are in none of the sums."""
    tokenized: int
    """Calls that a tokenizer has counted; the others are counted by ratio."""
    tokens: int
    new_tokens: int
    cache_reads: int
    """Calls that had read from a cache."""
    cache_broken: int
    """Calls of these whose first difference is in the part that was read."""
    recorded_usd: float | None
    """Cost of the recorded calls; `None` if a model has no price."""
    new_usd: float | None
    """Cost of the new calls, with the recorded completions and what is left of the cache."""
    asking_usd: float | None
    """Cost of the new calls, once each, with an empty cache."""
    unpriced: tuple[str, ...]
    """Models without a price."""

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain data."""
        found = asdict(self) | {"unpriced": list(self.unpriced)}
        return {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in found.items()
        }

    def __str__(self) -> str:
        counted = self.calls - self.uncounted
        if not counted:
            return f"{_calls(self.calls)}, of which no tokens were recorded"
        by = {0: "by ratio", counted: "by tokenizer"}.get(
            self.tokenized, f"{self.tokenized} by tokenizer"
        )
        share = f" ({self.new_tokens / self.tokens - 1:+.1%})" if self.tokens else ""
        parts = [f"{_calls(counted)}, {self.tokens} → {self.new_tokens} tokens{share} {by}"]
        if self.recorded_usd is not None and self.new_usd is not None:
            parts.append(f"${self.recorded_usd:.4f} → ${self.new_usd:.4f}")
            parts.append(f"asking for real ${self.asking_usd:.4f}")
        if self.unpriced:
            parts.append(f"no price for {', '.join(self.unpriced)}")
        if self.cache_reads:
            parts.append(f"cache prefix broken in {self.cache_broken} of {self.cache_reads} calls")
        if self.uncounted:
            parts.append(f"{_calls(self.uncounted)} not counted")
        return "; ".join(parts)


def estimate(changes: Iterable[PromptChange], prices: EstimatePrices) -> CostEstimate | None:
    """Return what changed prompts cost, or `None` if there are none."""
    sums = merged(changes)
    if not sums:
        return None
    counted = [_costs(each, prices) for each in sums if each.calls > each.uncounted]
    costs = [cost for found in counted for cost in found.values()]
    unpriced = dict.fromkeys(model for model, cost in costs if cost is None)

    def total(name: str) -> float | None:
        return None if unpriced else sum(found[name][1] or 0.0 for found in counted)

    return CostEstimate(
        calls=sum(each.calls for each in sums),
        uncounted=sum(each.uncounted for each in sums),
        tokenized=sum(each.tokenized for each in sums),
        tokens=sum(each.tokens for each in sums),
        new_tokens=sum(each.new_tokens for each in sums),
        cache_reads=sum(each.cache_reads for each in sums),
        cache_broken=sum(each.broken for each in sums),
        recorded_usd=total("recorded"),
        new_usd=total("new"),
        asking_usd=total("asking"),
        unpriced=tuple(unpriced),
    )


def _costs(change: PromptChange, prices: EstimatePrices) -> dict[str, tuple[str, float | None]]:
    """Return model and cost of the recorded calls, of the new ones, and of those with no cache."""
    cached = min(change.cached, change.tokens)
    kept = min(change.kept, change.new_tokens)
    recorded = PricedTokens(
        prompt=change.tokens,
        completion=change.completion,
        cached=cached,
        written=min(change.written, change.tokens - cached),
    )
    new = PricedTokens(
        prompt=change.new_tokens,
        completion=change.completion,
        cached=kept,
        written=min(change.written, change.new_tokens - kept),
    )
    asking = PricedTokens(prompt=change.new_tokens, completion=change.completion)
    priced = {
        "recorded": (change.recorded_model or change.model, recorded),
        "new": (change.model, new),
        "asking": (change.model, asking),
    }
    return {
        name: (model, prices.cost(change.provider, model, tokens))
        for name, (model, tokens) in priced.items()
    }


def _calls(count: int) -> str:
    return f"{count} model call" if count == 1 else f"{count} model calls"
