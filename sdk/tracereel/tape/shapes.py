"""Validation of tape records; a tape is untrusted data."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import msgspec

_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Reference = str | None


class _Redaction(TypedDict, total=False):
    built_in: bool
    rules: list[list[str]]


class _Origin(TypedDict, total=False):
    trace_id: str
    tape_id: str
    at: int | None
    overrides: list[dict[str, Any]]


class _Run(TypedDict, total=False):
    trace_id: str
    kind: str
    name: str
    started: str
    entry: str | None
    folder: str | None
    code: str | None
    commit: str | None
    n: _Number
    form: str
    object: bool
    exact: bool
    redaction: _Redaction | None
    environment: dict[str, str] | None
    libraries: dict[str, str] | None
    python: str
    sdk: str
    forked_from: _Origin | None


class _Open(TypedDict):
    n: _Number
    p: _Number
    k: str
    name: str
    c: str
    t: _Number
    f: NotRequired[str]
    a: NotRequired[_Reference]
    h: NotRequired[str]
    l: NotRequired[_Number]  # noqa: E741 - a field name of the format
    i: NotRequired[int]
    e: NotRequired[str]
    j: NotRequired[_Number]


class _Given(TypedDict):
    n: _Number
    q: _Number
    t: _Number
    v: NotRequired[_Reference]
    how: NotRequired[Literal["returned", "raised", "cancelled", "closed", "chunk"]]
    g: NotRequired[tuple[int, int] | None]
    s: NotRequired[int]
    w: NotRequired[int]


class _Decision(TypedDict):
    p: _Number
    type: str
    v: NotRequired[_Reference]
    among: NotRequired[_Reference]


class _Problem(TypedDict):
    state: Literal["partly", "no"]
    reason: str


class _Closed(TypedDict):
    how: str
    v: NotRequired[_Reference]


class _Blob(TypedDict):
    h: str
    v: str
    i: NotRequired[_Number]
    of: NotRequired[_Number]


_SHAPES: Final[dict[str, Any]] = {
    "run": _Run,
    "open": _Open,
    "chunk": _Given,
    "end": _Given,
    "decision": _Decision,
    "problem": _Problem,
    "closed": _Closed,
    "blob": _Blob,
}


def check(record: Any) -> Mapping[str, Any]:
    """Return a record after checking its fields; unknown kinds are not checked.

    Raises:
        ValueError: a field is missing or invalid.
    """
    if not isinstance(record, Mapping) or not isinstance(record.get("r"), str):
        raise ValueError("a record is no object with a kind (`r`)")
    kind = record["r"]
    shape = _SHAPES.get(kind)
    if shape is None:
        return record
    try:
        msgspec.convert(record, shape)
    except msgspec.ValidationError as error:
        raise ValueError(f"a record of kind {kind}: {error}") from error
    if kind == "run" and "started" in record:
        datetime.fromisoformat(record["started"])
    if kind == "open" and record["p"] >= record["n"]:
        raise ValueError(f"call {record['n']} is inside of call {record['p']}, which began later")
    return record
