"""Rows of the price table: prices, and rules that find the price of a called model."""

from dataclasses import dataclass
from typing import Final

THRESHOLDS: Final = (
    *(32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288),
)
"""Prompt sizes above which a price may change; rollups keep the tokens between two of them apart."""
FROM_THE_BEGINNING: Final = -1
"""Threshold of the lowest tier: it also holds for an empty prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceCase:
    """Price of a million tokens in US dollars at a time of day, for prompts above a size."""

    second: int = 0
    """Second of the day (UTC) from which it applies."""
    above: int = FROM_THE_BEGINNING
    """Prompt tokens that must be exceeded."""
    input: float
    cache_read: float
    cache_write: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of a million tokens of a model from a day on, in US dollars."""

    origin: str
    """`file` or `package`."""
    provider: str
    model: str
    valid_from: str
    input: float
    output: float
    cache_read: float
    cache_write: float
    cases: tuple[PriceCase, ...] = ()
    """By time of day and size of the prompt, the last that holds applies; empty: one price."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRule:
    """Rule for a text in lower case; all of its conditions must hold, and the first rule wins."""

    scope: str
    """Kind of text: the name of a `provider`, or of a model for its `family`, `model` or `file`."""
    provider: str = ""
    """Whose models the rule is for."""
    position: int
    equals: str = ""
    prefix: str = ""
    suffix: str = ""
    contains: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Regular expressions that must be found."""
    against: tuple[str, ...] = ()
    """Regular expressions that must not be found."""
    priced_provider: str = ""
    priced_model: str = ""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices, and the rules by which they are found."""

    prices: tuple[Price, ...]
    rules: tuple[PriceRule, ...]
