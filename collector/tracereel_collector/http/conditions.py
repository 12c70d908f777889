"""Query parameters that several routes share: ranges and attributes."""

from collections.abc import Iterable, Mapping

from tracereel_collector.errors import BadRequestError


def ranges(
    given: Mapping[str, object], names: Iterable[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the `min_…` and the `max_…` parameters by name.

    Raises:
        BadRequestError: a minimum is above its maximum.
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
    """Refuse an empty range, whose empty result would be misleading.

    Raises:
        BadRequestError: the minimum is above the maximum.
    """
    if low is not None and high is not None and low > high:
        raise BadRequestError(
            f"{names[0]}: {low:.15g} is above {names[1]}: {high:.15g}; expected at most that"
        )


def attribute_pairs(given: Iterable[str] | None) -> tuple[tuple[str, str], ...]:
    """Parse attributes of the form `key=value`.

    Raises:
        BadRequestError: an attribute has no key or no value.
    """
    return tuple(_pair(each) for each in given or ())


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise BadRequestError(f"attribute: {text[:80]!r} has no value; expected key=value")
    return key, value
