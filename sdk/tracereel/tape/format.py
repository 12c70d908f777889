"""Tape format and parser: calls as a tree, their order and values.

On the wire and in files a tape is NDJSON. Each line is a part: `{"tape_id", "part", "records":
[…]}`; the collector stores it in the envelope of an event. Kinds of records, by field `r`:
- `run`: entry point, arguments, versions and environment;
- `open`: a call begins. Number `n`, parent `p`, kind `k`, `name`, function `f`, form `c`,
  arguments `a`, hash of long arguments `h`, lane (thread) `l`, task `j`, jobs of thread pools `o`
  (module `pool_jobs`), microseconds `t`, `i` if
  inside another boundary, effect `e`, names of parameters left at their default `d`, `x` if the
  variable that the function is named for does not hold the traced function;
- `chunk`, `end`: a stream item or the end of a call (`how`, value `v`). `q` is the order among all
  results, `g` the event loop iteration, `s` whether it had to wait, `w` whether a plain function
  returned a coroutine, `u` the tokens of a model call, `m` those recorded inside of the call;
- `status`: how an agent or pipeline `n` ended (`how`, `confidence`, class of its exception `c`);
- `decision`: its `type`, outcome `v`, and candidates `among` if known;
- `blob`: a value that other records refer to; `problem`: a reason why the run is not fully
  replayable, `outside` if it is about something outside of recorded calls;
- `closed`: the end of the run and its result;
- `replayed`: the outcome of a re-execution (module `outcome`), alone in its part;
- `fleet`, `group`: a fleet replay and its causes (module `fleet.storing`), under an id of their own.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import msgspec
from msgspec import field

from tracereel.errors import TracereelError
from tracereel.tape import moves, payloads
from tracereel.tape.inner_usage import InnerUsage
from tracereel.tape.pool_jobs import MAX_JOBS, results_before

VERSION: Final = 1
BOUNDARIES: Final = frozenset({"llm", "tool", "retrieval"})
State = Literal["yes", "partly", "no"]


class TapeError(TracereelError):
    """The tape is missing or cannot be read."""


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
    framework: str | None
    exact: bool
    redaction: _Redaction | None
    environment: dict[str, str] | None
    libraries: dict[str, str] | None
    python: str
    sdk: str
    forked_from: _Origin | None


class Given(msgspec.Struct, eq=False):
    """Stream item or end of a call, and its place on the tape."""

    call: _Number = field(name="n")
    order: _Number = field(name="q")
    at: _Number = field(name="t")
    value: str | None = field(name="v", default=None)
    how: Literal["returned", "raised", "cancelled", "closed", "chunk"] = "chunk"
    turn: tuple[int, int] | None = field(name="g", default=None)
    waited: int = field(name="s", default=0)
    awaited: int = field(name="w", default=0)
    usage: dict[str, int | float] = field(name="u", default_factory=dict)
    """Tokens and cost that the call noted, by event field."""
    used: list[InnerUsage] = field(name="m", default_factory=list)
    """Tokens and cost that were recorded inside of the call."""
    index: int = field(name="_index", default=-1)
    """Index of the stream item; -1 for the end. The parser sets this and the following."""
    after: int = field(name="_after", default=0)
    """Highest number of the calls that began before it."""


class Call(msgspec.Struct, eq=False):
    """Call on the tape."""

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
    defaults: list[str] = field(name="d", default_factory=list)
    """Names of the parameters that were not passed."""
    apart: int = field(name="x", default=0)
    """Whether the variable of its function held another function than the traced one."""
    task: _Number = field(name="j", default=0)
    """Number of the task that made the call; 0 without a task."""
    jobs: Annotated[list[tuple[_Number, _Number]], msgspec.Meta(max_length=MAX_JOBS)] = field(
        name="o", default_factory=list
    )
    """Jobs of thread pools around the call, the outermost first."""
    after: int = field(name="_after", default=0)
    """Number of results delivered before the call began; the parser sets this and the following."""
    chunks: list[Given] = field(name="_chunks", default_factory=list)
    end: Given | None = field(name="_end", default=None)
    children: list["Call"] = field(name="_children", default_factory=list)

    def had_to_follow(self, other: "Call") -> bool:
        """Return whether another call had ended before this one could begin."""
        if other.end is None:
            return False
        return other.end.order <= results_before(self.jobs, other.jobs, now=self.after)

    def results(self) -> list[Given]:
        """Return the items of its stream, and its end if it has one."""
        return [*self.chunks, *([self.end] if self.end is not None else ())]

    @property
    def served(self) -> bool:
        """Whether a re-execution serves its result instead of running it."""
        return self.kind in BOUNDARIES and not self.inner and self.form != "block"


class TapeDecision(msgspec.Struct, eq=False):
    """Decision on the tape and its outcome."""

    parent: _Number = field(name="p")
    type: str
    value: str | None = field(name="v", default=None)
    among: str | None = None
    """Candidates, if known."""


class TapeStatus(msgspec.Struct, eq=False):
    """How an agent or pipeline ended."""

    call: _Number = field(name="n")
    how: str
    confidence: float | None = None
    kind: str | None = field(name="c", default=None)
    """Class of its exception."""


class _Problem(TypedDict):
    state: Literal["partly", "no"]
    reason: str
    outside: NotRequired[bool]


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
    "open": Call,
    "chunk": Given,
    "end": Given,
    "decision": TapeDecision,
    "status": TapeStatus,
    "problem": _Problem,
    "closed": _Closed,
    "blob": _Blob,
}


@dataclass(slots=True)
class Tape:
    """Recorded run."""

    tape_id: str
    header: Mapping[str, Any]
    calls: dict[int, Call]
    decisions: list[TapeDecision]
    blobs: Mapping[str, str]
    closed: Mapping[str, Any] | None
    problems: tuple[tuple[State, str], ...]
    records: tuple[Mapping[str, Any], ...]
    """Records as they were stored."""
    statuses: Mapping[int, TapeStatus] = dataclasses.field(default_factory=dict)
    """How agents and pipelines ended, by the number of their call."""
    moved: moves.Moves = moves.NONE
    """Names that have changed since; everything else here has the new ones."""

    @property
    def trace_id(self) -> str:
        """Id of the recorded trace."""
        return str(self.header.get("trace_id", ""))

    @property
    def complete(self) -> bool:
        """Whether the tape reaches the end of the run."""
        return self.closed is not None

    @property
    def state(self) -> State:
        """Whether the run can be re-executed."""
        states = [state for state, _ in self.problems]
        if "no" in states or not self.header:
            return "no"
        return "partly" if states or not self.complete else "yes"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why the run is not fully replayable."""
        found = [reason for _, reason in self.problems]
        if not self.header:
            found.append("the beginning of the tape is not there")
        elif not self.complete and self.state != "no":
            found.append("the tape ends before the run did: it replays up to there")
        return tuple(dict.fromkeys(found))

    @property
    def outside(self) -> tuple[str, ...]:
        """Return what the run did outside of its recorded calls, as far as it was seen."""
        found = [each for each in self.records if each["r"] == "problem" and each.get("outside")]
        return tuple(dict.fromkeys(str(each["reason"]) for each in found))

    def data(self, reference: str | None) -> Any:
        """Return the data of a reference."""
        data = payloads.read(reference, self.blobs)
        return self.moved.data(data) if self.moved.classes else data

    def roots(self) -> list[Call]:
        """Return the outermost calls."""
        return [call for call in self.calls.values() if call.parent == 0]

    def boundaries(self) -> list[Call]:
        """Return the calls that a re-execution serves, in the order in which they began."""
        return [self.calls[number] for number in sorted(self.calls) if self.calls[number].served]

    def items_read(self) -> int | None:
        """Return how many items of the run's stream were read, if it was closed early."""
        if self.closed is None or self.closed["how"] != "closed" or not self.closed.get("v"):
            return None
        ended = self.data(self.closed["v"])
        return len(ended["items"]) if isinstance(ended, dict) and "items" in ended else None

    def lines(self) -> Iterator[bytes]:
        """Yield the tape as NDJSON lines."""
        for part, start in enumerate(range(0, len(self.records), 50)):
            body = {
                "tape_id": self.tape_id,
                "part": part,
                "records": self.records[start : start + 50],
            }
            yield msgspec.json.encode(body) + b"\n"

    def save(self, path: str | Path) -> None:
        """Write the tape to a file."""
        with Path(path).open("wb") as file:
            file.writelines(self.lines())


def load(path: str | Path) -> Tape:
    """Load a tape from a file.

    Raises:
        TapeError: there is no such file, or it contains no tape.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise TapeError(f"the tape {str(path)!r} cannot be read: {error.strerror}") from error
    return parse(lines, where=str(path))


def parse(lines: Iterable[bytes | str | Mapping[str, Any]], *, where: str = "this") -> Tape:
    """Parse the parts of a tape; a truncated last line is ignored.

    If there are several tapes, return the one that began first. Names that `tracereel-moves.toml`
    lists are replaced.

    Raises:
        TapeError: there is no tape.
    """
    try:
        moved = moves.current()
    except moves.MovesError as error:
        raise TapeError(str(error)) from error
    found: dict[str, dict[int, list[Mapping[str, Any]]]] = {}
    for line in lines:
        body = _body(line)
        if body is not None and not _is_outcome(body):
            # Keep the first of duplicate parts.
            found.setdefault(str(body["tape_id"]), {}).setdefault(_part(body), body["records"])
    if not found:
        raise TapeError(f"no tape in {where}: was the run recorded with record=…?")
    tapes: list[Tape] = []
    damage: Exception | None = None
    for tape_id, parts in found.items():
        try:
            tapes.append(_tape(tape_id, parts, moved))
        except (ValueError, TypeError, RecursionError) as error:
            damage = damage or error  # another tape of the run may be intact
    if not tapes:
        raise TapeError(f"the tape in {where} is damaged: {damage}") from damage
    return min(tapes, key=lambda tape: (not tape.header, str(tape.header.get("started", ""))))


def _body(line: bytes | str | Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not isinstance(line, Mapping):
        if not line.strip():
            return None
        try:
            line = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return None
    usable = isinstance(line, Mapping) and isinstance(line.get("records"), list)
    return line if usable and isinstance(line, Mapping) and "tape_id" in line else None


def _part(body: Mapping[str, Any]) -> int:
    part = body.get("part")
    if not isinstance(part, int):
        raise TapeError(f"a part of the tape has the number {part!r}; expected a whole number")
    return part


def _is_outcome(body: Mapping[str, Any]) -> bool:
    """Return whether a part holds the outcome of a re-execution instead of the tape."""
    first = body["records"][0] if body["records"] else None
    return isinstance(first, Mapping) and first.get("r") == "replayed"


def _tape(tape_id: str, parts: dict[int, list[Mapping[str, Any]]], moved: moves.Moves) -> Tape:
    problems: list[tuple[State, str]] = []
    records: list[Mapping[str, Any]] = []
    for expected in range(max(parts) + 1):
        if expected not in parts:
            # Stop at a gap: later records may depend on the missing ones.
            problems.append(("partly", f"part {expected} of the tape is missing"))
            break
        records += parts[expected]
    header: Mapping[str, Any] = {}
    closed: Mapping[str, Any] | None = None
    calls: dict[int, Call] = {}
    decisions: list[TapeDecision] = []
    statuses: dict[int, TapeStatus] = {}
    begun = given = 0
    for stored in records:
        record = moved.renamed(stored) if isinstance(stored, Mapping) else stored
        found = _read(record)
        kind = record["r"]
        if kind == "run":
            header = header or record
        elif kind == "open":
            found.after, found.chunks, found.end, found.children = given, [], None, []
            calls[found.number] = _with_hash(found, moved)
            begun = max(begun, found.number)
        elif kind in ("end", "chunk"):
            given += 1
            if (call := calls.get(found.call)) is not None:
                found.after = begun
                if kind == "chunk":
                    found.index = len(call.chunks)
                    call.chunks.append(found)
                else:
                    found.index = -1
                    call.end = found
        elif kind == "decision":
            decisions.append(found)
        elif kind == "status":
            found.kind = moved.class_named(found.kind)
            statuses[found.call] = found
        elif kind == "problem":
            problems.append((record["state"], record["reason"]))
        elif kind == "closed":
            closed = record
    for call in calls.values():
        if (parent := calls.get(call.parent)) is not None:
            parent.children.append(call)
    blobs = payloads.blobs_of(records)
    tape = Tape(
        *(tape_id, header, calls, decisions, blobs, closed, tuple(problems), tuple(records)),
        statuses=statuses,
        moved=moved,
    )
    if any(map(moved.mentioned, blobs.values())):
        for call in calls.values():
            if call.arguments is not None and call.arguments[:1] == "#":
                call.arguments_hash = payloads.hash_of(tape.data(call.arguments))
    return tape


def _with_hash(call: Call, moved: moves.Moves) -> Call:
    if not call.arguments_hash and call.arguments is not None and call.arguments[:1] == "=":
        # The hash of inline arguments is not recorded.
        call.arguments_hash = payloads.hash_of(moved.data(payloads.read(call.arguments, {})))
    return call


def _read(record: Any) -> Any:
    """Return a record as an object of its kind; unknown kinds are returned unchecked."""
    if not isinstance(record, Mapping) or not isinstance(record.get("r"), str):
        raise ValueError("a record is no object with a kind (`r`)")
    kind = record["r"]
    shape = _SHAPES.get(kind)
    if shape is None:
        return record
    # Names with an underscore are the parser's; a record must not set them.
    sent = {name: value for name, value in record.items() if not str(name).startswith("_")}
    try:
        found = msgspec.convert(sent, shape)
    except msgspec.ValidationError as error:
        raise ValueError(f"a record of kind {kind}: {error}") from error
    if kind == "run" and "started" in record:
        datetime.fromisoformat(record["started"])
    if kind == "open" and found.parent >= found.number:
        raise ValueError(f"call {found.number} is inside of call {found.parent}, which began later")
    return found
