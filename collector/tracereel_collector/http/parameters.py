"""Parameters and bodies that several routes read alike."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel, ValidationError

from tracereel_collector.errors import BadRequestError, InvalidFilterError, TooLargeError
from tracereel_collector.query.filters import WIDEST

Model = TypeVar("Model", bound=BaseModel)
WAIT_SECONDS = 10.0
MAX_WAIT_SECONDS = 60.0
MAX_BYTES = 16 * 1024
"""Most bytes of a body with a few settings."""

From = Annotated[str | None, Query(alias="from", max_length=64)]
To = Annotated[str | None, Query(max_length=64)]
Text = Annotated[str | None, Query(max_length=1_000)]
Texts = Annotated[list[str] | None, Query()]
Number = Annotated[float | None, Query(allow_inf_nan=False)]
ScoreValue = Annotated[float | None, Query(ge=-WIDEST, le=WIDEST, allow_inf_nan=False)]
Wait = Literal["stored"] | None
Attempts = Literal["all"] | None
Timeout = Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS)]


def ranges(
    given: Mapping[str, object], names: Iterable[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the `min_…` and the `max_…` parameters by name."""
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
    """Refuse an empty range, whose empty result would be misleading."""
    if low is not None and high is not None and low > high:
        raise InvalidFilterError(
            f"{names[0]}: {low:.15g} is above {names[1]}: {high:.15g}; expected at most that"
        )


def attribute_pairs(given: Iterable[str] | None) -> tuple[tuple[str, str], ...]:
    """Parse attributes of the form `key=value`; refuse those without a key or a value."""
    pairs = []
    for text in given or ():
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InvalidFilterError(f"attribute: {text[:80]!r} has no value; expected key=value")
        pairs.append((key, value))
    return tuple(pairs)


def json_body(model: type[BaseModel], *, required: bool = True) -> dict[str, object]:
    """Describe a body for OpenAPI; handlers read it within the limits of their tenant."""
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": required, "content": content}}


def check_size(data: bytes, most: int) -> None:
    """Refuse a body of more bytes than a route accepts."""
    if len(data) > most:
        raise TooLargeError(f"the body has {len(data)} bytes; at most {most} are accepted")


def parse_body(model: type[Model], data: bytes, *, hint: str | None = None) -> Model:
    """Parse a small JSON body."""
    check_size(data, MAX_BYTES)
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the body"
        message = f"{name}: {first['msg']}; got {str(first.get('input'))[:80]!r}"
        raise BadRequestError(message, hint=hint) from error
