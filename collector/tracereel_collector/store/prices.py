"""Price table: of the package genai-prices, overridden by a built-in and a user's file.

Costs are calculated at read time, not at insert time: a price that is corrected or added later also
applies to the past, and inserts stay cheap.
"""

import csv
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from tracereel_collector.errors import StartupError
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.price_package import package_prices, package_version
from tracereel_collector.store.price_rows import Price, PriceCase, PriceRule, PriceTable

COLUMNS = (
    *("providers", "model", "valid_from", "input", "output"),
    *("cache_read", "cache_write", "source"),
)
MAX_PRICES = 10_000
"""Maximum number of rows of a file: the table is joined with every called model."""
FORM: Final = 2
"""Number of the form of the rows; another one loads the same prices again."""

_NAME = re.compile(r"[A-Za-z0-9_.:/@*+ -]{1,200}")


@dataclass(frozen=True, slots=True)
class KnownPrices:
    """Prices of the files, and those of the package when the table is made."""

    own: tuple[Price, ...]
    version: str
    """Version of the package; empty: only the prices of the files."""

    @property
    def digest(self) -> str:
        """Digest of what the table is made from."""
        return hashlib.sha256(repr((FORM, self.version, self.own)).encode()).hexdigest()[:32]

    def table(self) -> PriceTable:
        """Return all prices and the rules by which models are found."""
        own = PriceTable(self.own, tuple(_rules(self.own)))
        if not self.version:
            return own
        package = package_prices()
        return PriceTable(own.prices + package.prices, own.rules + package.rules)


def known_prices(own_file: Path | None) -> KnownPrices:
    """Return the package's prices and those of the files; the user's file is the strongest."""
    text = resources.files(__package__).joinpath("prices.csv").read_text(encoding="utf-8")
    built_in = parse(text, name="prices.csv").own
    if own_file is None:
        return KnownPrices(built_in, package_version())
    try:
        text = own_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"the price file cannot be read: {error}") from error
    own = parse(text, name=own_file.name).own
    replaced = {(price.provider, price.model) for price in own}
    kept = tuple(each for each in built_in if (each.provider, each.model) not in replaced)
    return KnownPrices(kept + own, package_version())


def parse(text: str, *, name: str) -> KnownPrices:
    """Parse a price file into one price per row and provider, without the package's."""
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
    return KnownPrices(tuple(prices), version="")


def _prices_of(row: dict[str, str]) -> Iterable[Price]:
    for column in ("providers", "model"):
        if not _NAME.fullmatch(row[column] or ""):
            raise ValueError(f"{column} is {row[column]!r}; expected a name")
    valid_from = datetime.strptime(row["valid_from"], "%Y-%m-%d").replace(tzinfo=UTC)
    price, output = _dollars(row["input"]), _dollars(row["output"])
    read, write = row["cache_read"], row["cache_write"]
    case = PriceCase(
        input=price,
        cache_read=_dollars(read) if read else price,
        cache_write=_dollars(write) if write else price,
        output=output,
    )
    for provider in row["providers"].split():
        yield Price(
            origin="file",
            provider=provider,
            model=row["model"],
            valid_from=f"{valid_from:%Y-%m-%d}",
            input=case.input,
            output=case.output,
            cache_read=case.cache_read,
            cache_write=case.cache_write,
            source=re.sub(r"[^A-Za-z0-9_.:/@ -]", " ", row["source"] or "")[:200],
        )


def _dollars(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text!r} is no price; expected a number from 0 on")
    return value


def _rules(prices: Sequence[Price]) -> Iterable[PriceRule]:
    """Return a rule for each model of a file: its exact name, or the beginning before a `*`."""
    for provider, model in dict.fromkeys((each.provider, each.model) for each in prices):
        beginning = model.removesuffix("*").lower()
        is_exact = not model.endswith("*")
        yield PriceRule(
            scope="file",
            provider=provider,
            # The longest beginning wins.
            position=0 if is_exact else 1_000 - len(beginning),
            equals=beginning if is_exact else "",
            prefix="" if is_exact else beginning,
            priced_provider=provider,
            priced_model=model,
        )


def load_prices(store: ClickHouseStore, prices: KnownPrices) -> bool:
    """Store a price table unless it is current; return whether it changed."""
    rows = store.rows("SELECT max(Revision), argMax(Digest, Revision) FROM model_prices")
    digest = prices.digest
    if rows and rows[0][1:] == (digest,):
        return False
    ((begun,),) = store.rows("SELECT max(Revision) FROM price_rules")
    revision = max(int(begun), int(rows[0][0]) if rows else 0) + 1
    table = prices.table()
    # A revision is in force when it has prices: its rules come first.
    store.put("price_rules", _lines(table.rules, revision), fmt="JSONCompactEachRow")
    store.put("model_prices", _lines(table.prices, revision, digest), fmt="JSONCompactEachRow")
    return True


def _lines(rows: Sequence[Price | PriceRule], *beginning: object) -> bytes:
    names = [field.name for field in fields(rows[0])] if rows else []
    return b"\n".join(
        msgspec.json.encode([*beginning, *(getattr(row, name) for name in names)]) for row in rows
    )
