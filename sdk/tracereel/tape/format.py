"""A tape as it is read: the calls of a run as a tree, the order of their ends, the values.

On the wire and in files a tape is NDJSON; each line is a part: `{"tape_id", "part", "records": […]}`,
in the collector with the envelope of an event around. Records, by `r`:

- `run`: where it began: entry point, arguments, versions, environment;
- `open`: a call begins: number `n`, parent `p`, kind `k`, `name`, function `f`, form `c`, arguments
  `a`, of long ones their hash `h`, lane `l` (which thread), task `j`, microseconds `t`, `i` when inside
  another boundary, effect `e`;
- `chunk`, `end`: it gave a part of a stream, it ended (`how`, value `v`); `q` is their order among all,
  `g` which turn of the event loop, `s` whether it had to wait, `w` whether a plain function gave a
  coroutine;
- `decision`: its `type`, what came out (`v`), and the candidates (`among`) where they are known;
- `blob`, `problem`, and `closed`: the run has ended, with this result;
- `replayed`, alone: what came of a re-execution (`outcome`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from tracereel.errors import TracereelError
from tracereel.tape import payloads

VERSION: Final = 1
BOUNDARIES: Final = frozenset({"llm", "tool", "retrieval"})
State = Literal["yes", "partly", "no"]


class TapeError(TracereelError):
    """A tape cannot be read, or there is none."""


@dataclass(frozen=True, slots=True)
class Given:
    """Something that a call gave at a moment: a part of a stream, or its end."""

    order: int
    turn: tuple[int, int] | None
    at: int
    how: str
    value: str | None
    waited: bool
    awaited: bool
    call: int
    index: int
    """Number of the part of a stream, -1 for the end."""
    after: int
    """Highest number of a call that had begun before it."""


@dataclass(slots=True)
class Call:
    """A call on the tape."""

    number: int
    parent: int
    kind: str
    name: str
    function: str
    form: str
    arguments: str | None
    arguments_hash: str
    lane: int
    at: int
    inner: bool
    effect: str
    task: int
    """Which task made it; 0 for none."""
    after: int
    """How many results had been given before it began."""
    chunks: list[Given] = field(default_factory=list)
    end: Given | None = None
    children: list["Call"] = field(default_factory=list)

    @property
    def served(self) -> bool:
        """Whether a re-execution gives its result instead of running it."""
        return self.kind in BOUNDARIES and not self.inner and self.form != "block"


@dataclass(slots=True)
class Decision:
    """A decision on the tape: which of its type under its parent, and what came out."""

    parent: int
    type: str
    value: str | None
    among: str | None
    """What it could have been, where that is known."""


@dataclass(slots=True)
class Tape:
    """A recorded run."""

    tape_id: str
    header: Mapping[str, Any]
    calls: dict[int, Call]
    decisions: list[Decision]
    blobs: Mapping[str, str]
    closed: Mapping[str, Any] | None
    problems: tuple[tuple[State, str], ...]
    records: tuple[Mapping[str, Any], ...]

    @property
    def trace_id(self) -> str:
        """The trace that was recorded."""
        return str(self.header.get("trace_id", ""))

    @property
    def complete(self) -> bool:
        """Whether it goes to the end of the run; else it was cut, and is good up to the cut."""
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
        """Why not, or only partly."""
        found = [reason for _, reason in self.problems]
        if not self.header:
            found.append("the beginning of the tape is not there")
        elif not self.complete and self.state != "no":
            found.append("the tape ends before the run did: it replays up to there")
        return tuple(dict.fromkeys(found))

    def data(self, reference: str | None) -> Any:
        """The data of a reference."""
        return payloads.read(reference, self.blobs)

    def roots(self) -> list[Call]:
        """The calls that no other call was around."""
        return [call for call in self.calls.values() if call.parent == 0]

    def boundaries(self) -> list[Call]:
        """The calls that a re-execution serves, in the order they began."""
        return [self.calls[number] for number in sorted(self.calls) if self.calls[number].served]

    def items_read(self) -> int | None:
        """How many items of the run's stream were read before it was closed; null if it was not."""
        if self.closed is None or self.closed["how"] != "closed" or not self.closed.get("v"):
            return None
        ended = self.data(self.closed["v"])
        return len(ended["items"]) if isinstance(ended, dict) and "items" in ended else None

    def lines(self) -> Iterator[bytes]:
        """The tape as NDJSON."""
        for part, start in enumerate(range(0, len(self.records), 50)):
            body = {
                "tape_id": self.tape_id,
                "part": part,
                "records": self.records[start : start + 50],
            }
            yield msgspec.json.encode(body) + b"\n"

    def save(self, path: str | Path) -> None:
        """Write it to a file."""
        with Path(path).open("wb") as file:
            file.writelines(self.lines())


def load(path: str | Path) -> Tape:
    """The tape of a file.

    Raises:
        TapeError: there is no such file, or no tape in it.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise TapeError(f"the tape {str(path)!r} cannot be read: {error.strerror}") from error
    return parse(lines, where=str(path))


def parse(lines: Iterable[bytes | str | Mapping[str, Any]], *, where: str = "this") -> Tape:
    """The tape of its parts; a torn last line is left out. Of several tapes, the first that began.

    Raises:
        TapeError: there is none.
    """
    found: dict[str, dict[int, list[Mapping[str, Any]]]] = {}
    for line in lines:
        body = _body(line)
        if body is not None and not _tells_of_a_replay(body):
            found.setdefault(body["tape_id"], {})[body["part"]] = body["records"]
    if not found:
        raise TapeError(f"no tape in {where}: was the run recorded with record=…?")
    tapes = [_tape(tape_id, parts) for tape_id, parts in found.items()]
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


def _tells_of_a_replay(body: Mapping[str, Any]) -> bool:
    """Whether it says what came of a re-execution, which is no part of the tape."""
    return bool(body["records"]) and body["records"][0].get("r") == "replayed"


def _tape(tape_id: str, parts: dict[int, list[Mapping[str, Any]]]) -> Tape:
    problems: list[tuple[State, str]] = []
    records: list[Mapping[str, Any]] = []
    for expected in range(max(parts) + 1):
        if expected not in parts:
            # What follows a gap would be served without what went before it.
            problems.append(("partly", f"part {expected} of the tape is missing"))
            break
        records += parts[expected]
    header: Mapping[str, Any] = {}
    closed: Mapping[str, Any] | None = None
    calls: dict[int, Call] = {}
    decisions: list[Decision] = []
    begun = given = 0
    for record in records:
        kind = record.get("r")
        if kind == "run":
            header = record
        elif kind == "open":
            calls[record["n"]] = _call(record, given)
            begun = max(begun, record["n"])
        elif kind in ("end", "chunk"):
            given += 1
            _give(calls, record, begun)
        elif kind == "decision":
            value, among = record.get("v"), record.get("among")
            decisions.append(Decision(record["p"], record["type"], value, among))
        elif kind == "problem":
            problems.append((record["state"], record["reason"]))
        elif kind == "closed":
            closed = record
    for call in calls.values():
        if (parent := calls.get(call.parent)) is not None:
            parent.children.append(call)
    blobs = payloads.blobs_of(records)
    return Tape(tape_id, header, calls, decisions, blobs, closed, tuple(problems), tuple(records))


def _call(record: Mapping[str, Any], given: int) -> Call:
    return Call(
        number=record["n"],
        parent=record["p"],
        kind=record["k"],
        name=record["name"],
        function=record.get("f", ""),
        form=record["c"],
        arguments=record.get("a"),
        arguments_hash=record.get("h") or _hash(record.get("a")),
        lane=record.get("l", 0),
        at=record["t"],
        inner=bool(record.get("i")),
        effect=record.get("e", ""),
        task=record.get("j", 0),
        after=given,
    )


def _hash(arguments: str | None) -> str:
    """The hash of arguments that are short enough to stand in the record."""
    if arguments is None or not arguments.startswith("="):
        return ""
    return payloads.hash_of(payloads.read(arguments, {}))


def _give(calls: dict[int, Call], record: Mapping[str, Any], begun: int) -> None:
    call = calls.get(record["n"])
    if call is None:
        return
    turn = record.get("g")
    given = Given(
        order=record["q"],
        turn=(turn[0], turn[1]) if turn else None,
        at=record["t"],
        how=record.get("how", "chunk"),
        value=record.get("v"),
        waited=bool(record.get("s")),
        awaited=bool(record.get("w")),
        call=call.number,
        index=len(call.chunks) if record["r"] == "chunk" else -1,
        after=begun,
    )
    if record["r"] == "chunk":
        call.chunks.append(given)
    else:
        call.end = given
