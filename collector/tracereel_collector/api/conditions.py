"""Conditions that several routes read alike: ranges whose ends are in order, attributes with a value."""

from collections.abc import Iterable, Mapping

from tracereel_collector.errors import BadRequestError


def ranges(
    given: Mapping[str, object], names: Iterable[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """What was given as `min_…` and as `max_…` of some figures.

    Raises:
        BadRequestError: a least is above its most.
    """
    least, most = {}, {}
    for name in names:
        low, high = given.get(f"min_{name}"), given.get(f"max_{name}")
        if isinstance(low, (int, float)):
            least[name] = float(low)
        if isinstance(high, (int, float)):
            most[name] = float(high)
        check_range(least.get(name), most.get(name), names=(f"min_{name}", f"max_{name}"))
    return least, most


def check_range(low: float | None, high: float | None, *, names: tuple[str, str]) -> None:
    """Refuse a range that nothing can be in: it would be taken for one that nothing is in.

    Raises:
        BadRequestError: the least is above the most.
    """
    if low is not None and high is not None and low > high:
        raise BadRequestError(
            f"{names[0]}: {low:.15g} is above {names[1]}: {high:.15g}; expected at most that"
        )


def attribute_pairs(given: Iterable[str] | None) -> tuple[tuple[str, str], ...]:
    """Attributes as `key=value`.

    Raises:
        BadRequestError: one has no value.
    """
    return tuple(_pair(each) for each in given or ())


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise BadRequestError(f"attribute: {text[:80]!r} has no value; expected key=value")
    return key, value
