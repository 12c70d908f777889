"""Price table: read from a built-in and an optional user file, stored for queries.

Costs are calculated at read time, not at insert time: a price that is corrected or added later also
applies to the past, and inserts stay cheap.
"""

import csv
import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import msgspec

from tracereel_collector.errors import StartupError
from tracereel_collector.store.clickhouse import ClickHouseStore

COLUMNS = (
    *("providers", "model", "valid_from", "input", "output"),
    *("cache_read", "cache_write", "source"),
)
MAX_PRICES = 10_000
"""Maximum number of rows of a file: the table is joined with every called model."""

_NAME = re.compile(r"[A-Za-z0-9_.:/@*+ -]{1,200}")


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a million tokens of a model from a day on, in US dollars."""

    provider: str
    model: str
    valid_from: str
    input: float
    output: float
    cache_read: float | None
    cache_write: float | None
    source: str


def known_prices(own_file: Path | None) -> list[Price]:
    """Return the built-in prices; the user's file replaces all prices of the models it names."""
    built_in = resources.files(__package__).joinpath("prices.csv").read_text(encoding="utf-8")
    prices = parse(built_in, name="prices.csv")
    if own_file is None:
        return prices
    try:
        text = own_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"the price file cannot be read: {error}") from error
    own = parse(text, name=own_file.name)
    replaced = {(price.provider, price.model) for price in own}
    return [each for each in prices if (each.provider, each.model) not in replaced] + own


def parse(text: str, *, name: str) -> list[Price]:
    """Parse a price file into one price per row and provider."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines or tuple(lines[0].split(",")) != COLUMNS:
        raise StartupError(f"{name}: expected the columns {','.join(COLUMNS)}")
    if len(lines) > MAX_PRICES:
        raise StartupError(f"{name} has {len(lines)} rows; expected at most {MAX_PRICES}")
    prices: list[Price] = []
    for number, row in enumerate(csv.DictReader(lines), start=1):
        try:
            prices += _prices_of(row)
        except (TypeError, ValueError) as error:
            raise StartupError(f"{name}, row {number}: {error}") from error
    return prices


def _prices_of(row: dict[str, str]) -> Iterable[Price]:
    for column in ("providers", "model"):
        if not _NAME.fullmatch(row[column] or ""):
            raise ValueError(f"{column} is {row[column]!r}; expected a name")
    valid_from = datetime.strptime(row["valid_from"], "%Y-%m-%d").replace(tzinfo=UTC)
    for provider in row["providers"].split():
        yield Price(
            provider=provider,
            model=row["model"],
            valid_from=f"{valid_from:%Y-%m-%d}",
            input=_dollars(row["input"]),
            output=_dollars(row["output"]),
            cache_read=_dollars(row["cache_read"]) if row["cache_read"] else None,
            cache_write=_dollars(row["cache_write"]) if row["cache_write"] else None,
            source=re.sub(r"[^A-Za-z0-9_.:/@ -]", " ", row["source"] or "")[:200],
        )


def _dollars(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text!r} is no price; expected a number from 0 on")
    return value


def load_prices(store: ClickHouseStore, prices: list[Price]) -> bool:
    """Store a price table unless it is current; return whether it changed."""
    digest = hashlib.sha256(repr(prices).encode()).hexdigest()[:32]
    rows = store.rows("SELECT max(Revision), argMax(Digest, Revision) FROM model_prices")
    revision = int(rows[0][0]) if rows else 0
    if rows and rows[0][1:] == (digest,):
        return False
    lines = [msgspec.json.encode([revision + 1, digest, *astuple(each)]) for each in prices]
    store.put("model_prices", b"\n".join(lines), fmt="JSONCompactEachRow")
    return True
