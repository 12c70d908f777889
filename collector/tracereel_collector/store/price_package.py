"""Prices of the package genai-prices, as rows of the price table.

The package is imported when the table is made, which is once per version: it takes about 25 MB.
Its data are read as they are installed; nothing is fetched.
"""

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import version
from itertools import product
from typing import Any, Final

import structlog

from tracereel_collector.store.price_rows import (
    FROM_THE_BEGINNING,
    Price,
    PriceCase,
    PriceRule,
    PriceTable,
)

log = structlog.get_logger(__name__)

PACKAGE: Final = "genai-prices"
ALIASES: Final[Mapping[str, str]] = {
    "azure.ai.openai": "azure",
    "azure.ai.inference": "azure",
    "aws.bedrock": "aws",
    "gcp.gemini": "google",
    "gcp.vertex_ai": "google",
    "gcp.gen_ai": "google",
    "mistral_ai": "mistral",
    "x_ai": "x-ai",
    "moonshot_ai": "moonshotai",
    "together_ai": "together",
}
"""The package's name of each provider whose name in OpenTelemetry is another."""
_EPOCH: Final = date(1970, 1, 1)
_UNSUPPORTED: Final = re.compile(r"\(\?[=!<P]|\\[1-9]")
"""Syntax that the store's regular expressions lack."""


def package_version() -> str:
    """Return the version of the installed package."""
    return version(PACKAGE)


def package_prices() -> PriceTable:
    """Return the prices and rules of the installed package."""
    providers = importlib.import_module("genai_prices.data").providers
    source = f"{PACKAGE} {package_version()}"
    prices = [
        price
        for provider in providers
        for model in provider.models
        for price in _prices(provider.id, model, source)
    ]
    priced = {(price.provider, price.model) for price in prices}
    rules = [*_provider_rules(providers), *_family_rules(providers)]
    rules += [
        rule
        for rule in _model_rules(providers)
        if (rule.priced_provider, rule.priced_model) in priced
    ]
    return PriceTable(tuple(prices), tuple(rules))


def _prices(provider: str, model: Any, source: str) -> Iterator[Price]:
    """Return a price for each day from which other prices hold."""
    conditions = (
        [each.constraint for each in model.prices] if isinstance(model.prices, list) else []
    )
    days = {each.start_date for each in conditions if hasattr(each, "start_date")}
    moments = {
        datetime.combine(_EPOCH, clock, tzinfo=clock.tzinfo or UTC).astimezone(UTC).time()
        for each in conditions
        if hasattr(each, "start_time")
        for clock in (each.start_time, each.end_time)
    }
    for day in sorted({_EPOCH, *days}):
        cases: list[PriceCase] = []
        for clock in sorted({time(0), *moments}):
            at = datetime.combine(day, clock, tzinfo=UTC)
            cases += _cases(model.get_prices(at), second=_second(clock))
        if not cases:
            continue
        first = cases[0]
        yield Price(
            origin="package",
            provider=provider,
            model=model.id,
            valid_from=day.isoformat(),
            input=first.input,
            output=first.output,
            cache_read=first.cache_read,
            cache_write=first.cache_write,
            cases=tuple(cases) if len(cases) > 1 else (),
            source=source,
        )


def _second(clock: time) -> int:
    return clock.hour * 3600 + clock.minute * 60 + clock.second


def _cases(prices: Any, *, second: int) -> Iterator[PriceCase]:
    """Return the tiers of prices; none if they have no price for tokens of text."""
    keys = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok")
    by_key = {key: getattr(prices, key) for key in keys}
    if by_key["input_mtok"] is None and by_key["output_mtok"] is None:
        return
    starts = {tier.start for each in by_key.values() for tier in getattr(each, "tiers", ())}
    for above in (FROM_THE_BEGINNING, *sorted(starts)):
        found = {key: _of_tier(price, above) for key, price in by_key.items()}
        sent = found["input_mtok"] or 0.0
        read, write = found["cache_read_mtok"], found["cache_write_mtok"]
        yield PriceCase(
            second=second,
            above=above,
            input=sent,
            # Without a price of their own, cached tokens cost as much as others.
            cache_read=sent if read is None else read,
            cache_write=sent if write is None else write,
            output=found["output_mtok"] or 0.0,
        )


def _of_tier(price: Any, above: int) -> float | None:
    if price is None or isinstance(price, Decimal):
        return None if price is None else float(price)
    reached = [tier.price for tier in price.tiers if tier.start <= above]
    return float(reached[-1] if reached else price.base)


def _provider_rules(providers: Iterable[Any]) -> Iterator[PriceRule]:
    for name, provider in ALIASES.items():
        yield PriceRule(scope="provider", position=0, equals=name, priced_provider=provider)
    for position, each in enumerate(providers, start=1):
        yield PriceRule(
            scope="provider", position=position, equals=each.id, priced_provider=each.id
        )
    for position, each in enumerate(providers, start=1_000):
        for conditions in _alternatives(each.provider_match):
            yield PriceRule(
                scope="provider", position=position, priced_provider=each.id, **conditions
            )


def _family_rules(providers: Iterable[Any]) -> Iterator[PriceRule]:
    for position, each in enumerate(providers):
        for conditions in _alternatives(each.model_match):
            yield PriceRule(
                scope="family", position=position, priced_provider=each.id, **conditions
            )


def _model_rules(providers: Iterable[Any]) -> Iterator[PriceRule]:
    """Return the rules for the models of each provider, then of those whose models it also sells."""
    known = {each.id: each for each in providers}
    for provider in known.values():
        sellers = [provider.id, *(provider.fallback_model_providers or ())]
        models = [
            (name, model) for name in sellers if name in known for model in known[name].models
        ]
        for position, (owner, model) in enumerate(models):
            for conditions in _alternatives(model.match):
                yield PriceRule(
                    scope="model",
                    provider=provider.id,
                    position=position,
                    priced_provider=owner,
                    priced_model=model.id,
                    **conditions,
                )


def _alternatives(clause: Any) -> list[dict[str, Any]]:
    """Return the conditions of each way in which a clause can hold."""
    return [_conditions(each) for each in _ways(clause)] if clause is not None else []


_Way = tuple[tuple[str, str], ...]


def _ways(clause: Any) -> list[_Way]:
    """Return a clause as alternatives, each a list of simple conditions."""
    if hasattr(clause, "or_"):
        return [way for each in clause.or_ for way in _ways(each)]
    if hasattr(clause, "and_"):
        return [sum(parts, ()) for parts in product(*(_ways(each) for each in clause.and_))]
    if hasattr(clause, "regex"):
        return _ways_of_pattern(clause.regex)
    for kind in ("equals", "starts_with", "ends_with", "contains"):
        if hasattr(clause, kind):
            return [((kind, getattr(clause, kind).lower()),)]
    log.warning("price_rule_left_out", clause=repr(clause)[:200])
    return []


def _ways_of_pattern(pattern: str) -> list[_Way]:
    """Return a pattern for the store, which has no lookahead: one at the start is turned around."""
    against: _Way = ()
    rest = pattern
    if pattern.startswith("^(?!"):
        end = _end_of_group(pattern, 1)
        against = (("against", f"^(?:{pattern[4:end]})"),)
        rest = f"^{pattern[end + 1 :]}"
    if any(_UNSUPPORTED.search(each) for each in (rest, *(text for _, text in against))):
        log.warning("price_rule_left_out", rule=pattern[:200])
        return []
    return [(*against, ("pattern", rest))]


def _end_of_group(pattern: str, start: int) -> int:
    """Return the place of the bracket that closes a group."""
    depth, at, in_class = 0, start, False
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if not depth:
                return at
        at += 1
    raise ValueError(f"a group of {pattern!r} does not end")


def _conditions(way: _Way) -> dict[str, Any]:
    """Return the fields of a rule for conditions that must hold together."""
    texts: dict[str, list[str]] = {}
    for kind, text in way:
        texts.setdefault(kind, []).append(text)
    patterns = list(texts.get("pattern", ()))
    single = {}
    for field, kind, pattern in (
        ("equals", "equals", "^{}$"),
        ("prefix", "starts_with", "^{}"),
        ("suffix", "ends_with", "{}$"),
    ):
        first, *others = texts.get(kind) or [""]
        single[field] = first
        patterns += [pattern.format(re.escape(each)) for each in others]
    return {
        **single,
        "contains": tuple(texts.get("contains", ())),
        "patterns": tuple(patterns),
        "against": tuple(texts.get("against", ())),
    }
