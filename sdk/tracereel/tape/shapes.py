"""Records of a tape and their validation; a tape is untrusted data."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import msgspec
from msgspec import field

_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


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


class OpenRecord(msgspec.Struct, eq=False):
    """Beginning of a call."""

    number: _Number = field(name="n")
    parent: _Number = field(name="p")
    kind: str = field(name="k")
    name: str
    form: str = field(name="c")
    at: _Number = field(name="t")
    function: str = field(name="f", default="")
    arguments: str | None = field(name="a", default=None)
    arguments_hash: str = field(name="h", default="")
    lane: _Number = field(name="l", default=0)
    inner: int = field(name="i", default=0)
    """Whether it is inside another boundary."""
    effect: str = field(name="e", default="")
    task: _Number = field(name="j", default=0)
    """Number of the task that made the call; 0 without a task."""


class GivenRecord(msgspec.Struct, eq=False):
    """Stream item or end of a call."""

    call: _Number = field(name="n")
    order: _Number = field(name="q")
    at: _Number = field(name="t")
    value: str | None = field(name="v", default=None)
    how: Literal["returned", "raised", "cancelled", "closed", "chunk"] = "chunk"
    turn: tuple[int, int] | None = field(name="g", default=None)
    waited: int = field(name="s", default=0)
    awaited: int = field(name="w", default=0)


class TapeDecision(msgspec.Struct, eq=False):
    """Decision on the tape and its outcome."""

    parent: _Number = field(name="p")
    type: str
    value: str | None = field(name="v", default=None)
    among: str | None = None
    """Candidates, if known."""


class _Problem(TypedDict):
    state: Literal["partly", "no"]
    reason: str


class _Closed(TypedDict):
    how: str
    v: NotRequired[str | None]


class _Blob(TypedDict):
    h: str
    v: str
    i: NotRequired[_Number]
    of: NotRequired[_Number]


_SHAPES: Final[dict[str, Any]] = {
    "run": _Run,
    "open": OpenRecord,
    "chunk": GivenRecord,
    "end": GivenRecord,
    "decision": TapeDecision,
    "problem": _Problem,
    "closed": _Closed,
    "blob": _Blob,
}


def read(record: Any) -> Any:
    """Return a record as an object of its kind; unknown kinds are returned unchecked."""
    if not isinstance(record, Mapping) or not isinstance(record.get("r"), str):
        raise ValueError("a record is no object with a kind (`r`)")
    kind = record["r"]
    shape = _SHAPES.get(kind)
    if shape is None:
        return record
    try:
        found = msgspec.convert(record, shape)
    except msgspec.ValidationError as error:
        raise ValueError(f"a record of kind {kind}: {error}") from error
    if kind == "run" and "started" in record:
        datetime.fromisoformat(record["started"])
    if kind == "open" and found.parent >= found.number:
        raise ValueError(f"call {found.number} is inside of call {found.parent}, which began later")
    return found
