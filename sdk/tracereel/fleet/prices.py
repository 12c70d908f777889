"""Prices of models for estimates: a price file, then the package genai-prices if it is installed."""

import csv
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from tracereel.errors import TracereelError

COLUMNS: Final = (
    *("providers", "model", "valid_from", "input", "output"),
    *("cache_read", "cache_write", "source"),
)
"""Columns of a price file, as in `TRACEREEL_PRICE_FILE` of the collector."""
MAX_BYTES: Final = 4 * 1024 * 1024
_MILLION: Final = 1_000_000


class PricesError(TracereelError):
    """A price file is missing or cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedTokens:
    """Tokens of calls; the prompt includes those read from a cache and written to it."""

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    providers: frozenset[str]
    model: str
    valid_from: date
    input: float
    output: float
    cache_read: float | None
    cache_write: float | None

    def is_for(self, provider: str, model: str) -> bool:
        if provider and provider not in self.providers:
            return False
        if self.model.endswith("*"):
            return model.startswith(self.model[:-1])
        return model == self.model

    def cost(self, tokens: PricedTokens) -> float:
        plain = max(0, tokens.prompt - tokens.cached - tokens.written)
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        dollars = plain * self.input + tokens.cached * read + tokens.written * write
        return (dollars + tokens.completion * self.output) / _MILLION


class EstimatePrices:
    """Prices of today, for estimates."""

    def __init__(self, rows: tuple[_Row, ...] = ()) -> None:
        self._rows = rows

    def cost(self, provider: str, model: str, tokens: PricedTokens) -> float | None:
        """Return the cost in US dollars, or `None` if no price is known."""
        today = datetime.now(UTC).date()
        names = (model, model.rpartition("/")[2])
        known = [
            each
            for each in self._rows
            if each.valid_from <= today and any(each.is_for(provider, name) for name in names)
        ]
        if known:
            return max(known, key=lambda row: (not row.model.endswith("*"), row.valid_from)).cost(
                tokens
            )
        return _published(provider, model, tokens)


def read_prices(path: str | Path | None) -> EstimatePrices:
    """Read a price file; without one only published prices are known.

    Raises:
        PricesError: the file is missing, too long or no price file.
    """
    if path is None:
        return EstimatePrices()
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise PricesError(f"the price file {path} cannot be read: {error}") from error
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(text) > MAX_BYTES or not lines or tuple(lines[0].split(",")) != COLUMNS:
        raise PricesError(
            f"{path} is no price file; expected at most {MAX_BYTES} bytes with the columns"
            f" {','.join(COLUMNS)}"
        )
    rows: list[_Row] = []
    for number, row in enumerate(csv.DictReader(lines), 1):
        try:
            rows.append(_row(row))
        except (TypeError, ValueError, AttributeError) as error:
            raise PricesError(f"{path}, row {number}: {error}") from error
    return EstimatePrices(tuple(rows))


def _row(row: dict[str, str]) -> _Row:
    return _Row(
        providers=frozenset(row["providers"].split()),
        model=row["model"],
        valid_from=date.fromisoformat(row["valid_from"]),
        input=_dollars(row["input"]),
        output=_dollars(row["output"]),
        cache_read=_dollars(row["cache_read"]) if row["cache_read"] else None,
        cache_write=_dollars(row["cache_write"]) if row["cache_write"] else None,
    )


def _dollars(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text!r} is no price; expected a number from 0 on")
    return value


def _published(provider: str, model: str, tokens: PricedTokens) -> float | None:
    try:
        import genai_prices
    except ImportError:
        return None
    usage = genai_prices.Usage(
        input_tokens=tokens.prompt,
        output_tokens=tokens.completion,
        cache_read_tokens=tokens.cached,
        cache_write_tokens=tokens.written,
    )
    for provider_id in dict.fromkeys((provider or None, None)):
        try:
            found = genai_prices.calc_price(usage, model, provider_id=provider_id)
        except (LookupError, ValueError):
            continue
        return float(found.total_price)
    return None
