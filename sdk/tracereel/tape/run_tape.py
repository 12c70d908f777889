"""The tape of one run while it is recorded: records in parts, written when calls have ended.

While the program waits, a value is only taken as it is; it is looked at for secrets, addressed and
written with its neighbours' (`gathering`).
"""

import itertools
import threading
import time
from asyncio import _get_running_loop
from typing import TYPE_CHECKING, Any, Final, Protocol

from tracereel import _native
from tracereel._clock import sortable_id
from tracereel.tape import format as tape_format
from tracereel.tape import gathering
from tracereel.tape.payloads import INLINE, Packed, Payloads, Taken, finish, hash_of
from tracereel.tape.payloads import read as read_payload
from tracereel.tape.turns import AllTurns

if TYPE_CHECKING:
    from tracereel._privacy import Privacy

MAX_TAPE_BYTES: Final = 64 * 1024 * 1024
MAX_HELD_BYTES: Final = 4 * 1024 * 1024
"""What a run may hold in memory until it is known whether it fails."""
MAX_PART_BYTES: Final = 512 * 1024
MAX_REASONS: Final = 20
_RECORD_BYTES: Final = 150
_ODD_BYTES: Final = 8 * 1024
"""What a value that is not plain counts until it is written."""
_MOMENT_NS: Final = round(gathering.MOMENT * 1e9)
_LONGEST_NS: Final = 10 * _MOMENT_NS
"""After this the program writes itself: whoever was to come has not."""


class Sink(Protocol):
    """Where the parts of one tape go."""

    def write(self, tape_id: str, part: int, records: list[dict[str, Any]]) -> None:
        """Keep a part."""


class Node:
    """A call that has begun: its tape, its number, and whether it is inside a boundary."""

    __slots__ = ("covered", "inside", "number", "tape")

    def __init__(self, tape: "RunTape", number: int = 0, *, inside: bool = False) -> None:
        self.tape = tape
        self.number = number
        self.inside = inside
        self.covered = False
        """Whether a call of a model in it is served."""


class RunTape:
    """The tape of one run, while it is recorded; safe to use from several threads."""

    def __init__(self, sink: Sink, privacy: "Privacy | None", *, held: bool = False) -> None:
        self.tape_id = sortable_id("tap")
        self.privacy = privacy
        self.root = Node(self)
        self.refused = False
        """Whether nothing that could be served may be kept."""
        self.turns = AllTurns()
        self._sink = sink
        self._held = held
        self._lock = _native.RLock()
        self._started = time.perf_counter_ns()
        self._written = self._started - _MOMENT_NS
        self._taken: list[dict[str, Any]] = []
        """Records whose values are as they were taken."""
        self._records: list[dict[str, Any]] = []
        self._size = 0
        self._waiting = 0
        self._part = 0
        self._numbers = itertools.count(1)
        self._orders = itertools.count(1)
        self._lanes: dict[int, int] = {}
        self._payloads = Payloads(self._put)
        self._reasons: set[str] = set()
        self._over = False
        self._open = 0
        self._names: dict[int, str] = {}
        """Of the calls that are under way."""
        self._called = False
        """Whether somebody comes to write."""
        gathering.know(self)

    def begin(self, record: dict[str, Any]) -> None:
        """Write where the run begins."""
        with self._lock:
            self._add(record, 0)

    def open(
        self,
        node: Node,
        around: Node,
        *,
        kind: str,
        name: str,
        function: str,
        form: str,
        arguments: Taken,
        effect: str = "",
    ) -> None:
        """A call has begun; its node gets its number and place."""
        boundary = kind in tape_format.BOUNDARIES and form != "block"
        node.inside = around.inside or boundary
        with self._lock:
            number = node.number = next(self._numbers)
            record: dict[str, Any] = {
                "r": "open",
                "n": number,
                "p": around.number,
                "k": kind,
                "name": name,
                "f": function,
                "c": form,
                "a": arguments,
                "t": (time.perf_counter_ns() - self._started) // 1000,
            }
            if not boundary and around is not self.root:
                record["scope"] = True
            lane = self._lanes.setdefault(threading.get_ident(), len(self._lanes))
            if lane:
                record["l"] = lane
            if _get_running_loop() is not None and (task := self.turns.task()):
                record["j"] = task
            if around.inside:
                record["i"] = 1
            if effect:
                record["e"] = effect
            if boundary:
                self._open += 1
                self._names[number] = name
            # As `_add`, spelled out: this is what every call pays for.
            if not self._over:
                self._taken.append(record)
                self._waiting += len(arguments) if type(arguments) is bytes else _ODD_BYTES

    def give(
        self,
        node: Node,
        how: str,
        value: Taken,
        turn: tuple[int, int] | None,
        *,
        waited: bool = False,
        chunk: bool = False,
        awaited: bool = False,
    ) -> None:
        """A call has given a part of a stream, or ended."""
        with self._lock:
            now = time.perf_counter_ns()
            record: dict[str, Any] = {
                "r": "chunk" if chunk else "end",
                "n": node.number,
                "q": next(self._orders),
                "t": (now - self._started) // 1000,
                "v": value,
            }
            if turn is not None:
                record["g"] = turn
            if waited:
                record["s"] = 1
            if awaited:
                record["w"] = 1
            if not chunk:
                record["how"] = how
                self._open -= 1
            if not self._over:
                self._taken.append(record)
                self._waiting += len(value) if type(value) is bytes else _ODD_BYTES
                if self._waiting > MAX_PART_BYTES:
                    self.write()
            since = now - self._written
            if since >= (_LONGEST_NS if self._called else _MOMENT_NS):
                self.write()
            elif not self._called:
                self._called = True
                gathering.soon(self)

    def decided(self, around: Node, decision_type: str, value: Taken, among: Taken | None) -> None:
        """A decision was taken, among these candidates if they are known."""
        record = {"r": "decision", "p": around.number, "type": decision_type, "v": value}
        if among is not None:
            record["among"] = among
        with self._lock:
            self._add(record, _size(value) + _size(among))

    def problem(self, state: str, reason: str) -> None:
        """Something keeps the run from being re-executed, or from being so wholly."""
        with self._lock:
            self.refused = self.refused or state == "no"
            if reason not in self._reasons and len(self._reasons) < MAX_REASONS:
                self._reasons.add(reason)
                self._add({"r": "problem", "state": state, "reason": reason}, 0)

    def close(self, how: str, value: Taken | None) -> None:
        """The run has ended."""
        with self._lock:
            record: dict[str, Any] = {"r": "closed", "how": how}
            record["t"] = (time.perf_counter_ns() - self._started) // 1000
            record["unfinished"] = max(0, self._open)
            if value is not None:
                record["v"] = value
            self._add(record, _size(value))
            if self._held:
                self._forget()
            else:
                self.write()

    def keep(self) -> None:
        """Something has failed: what waits in memory leaves, and the rest with it."""
        with self._lock:
            self._held = False
            self.write()

    def disown(self) -> None:
        """In a forked child: the tape is the parent's."""
        self._lock = _native.RLock()
        self._forget()

    def _forget(self) -> None:
        self._taken.clear()
        self._records.clear()
        self._over = True

    def write(self) -> None:
        """Hand what there is to the sink."""
        with self._lock:
            self._finish()
            if self._held or not self._records:
                return
            records, self._records = self._records, []
            for part in _parts(records):
                self._sink.write(self.tape_id, self._part, part)
                self._part += 1

    def _add(self, record: dict[str, Any], size: int) -> None:
        if not self._over:
            self._taken.append(record)
            self._waiting += size
            if self._waiting > MAX_PART_BYTES:
                self.write()

    def _put(self, record: dict[str, Any]) -> None:
        """Keep a record that may leave."""
        if self._over:
            return
        self._size += _weight(record)
        limit = MAX_HELD_BYTES if self._held else MAX_TAPE_BYTES
        if self._size > limit:
            self._over = True
            reason = f"the tape is longer than {limit} bytes"
            record = {"r": "problem", "state": "partly", "reason": reason}
        self._records.append(record)

    def _finish(self) -> None:
        """Make records of what was taken, as they may leave."""
        self._written = time.perf_counter_ns()
        self._called = False
        while self._taken:
            # Problems that are found on the way are added at the end, and finished here too.
            taken, self._taken, self._waiting = self._taken, [], 0
            for record in taken:
                if (value := record.get("v")) is not None:
                    record["v"] = self._finish_value(record, value)
                elif record["r"] == "open":
                    self._finish_arguments(record)
                self._put(record)

    def _finish_value(self, record: dict[str, Any], value: Taken) -> str | None:
        text, packed = finish(value, self.privacy)
        reference = self._payloads.put_text(text)
        kind = record["r"]
        if kind in ("end", "chunk"):
            names, number = self._names, record["n"]
            name = names.get(number, "a call") if kind == "chunk" else names.pop(number, "a call")
            if reference is None:
                self.problem("partly", f"a result of {name} was too long to be kept")
            if packed is not None:
                self._check(name, packed)
        elif "among" in record:
            record["among"] = self._payloads.put_text(finish(record["among"], self.privacy)[0])
        return reference

    def _finish_arguments(self, record: dict[str, Any]) -> None:
        text, packed = finish(record["a"], self.privacy)
        if len(text) > INLINE:
            # Of short ones the reader makes the hash himself.
            data = packed.data if packed is not None else read_payload("=" + text.decode(), {})
            record["h"] = hash_of(data)
            if record.pop("scope", False):
                del record["a"]
                return
        record.pop("scope", None)
        record["a"] = self._payloads.put_text(text)

    def _check(self, name: str, value: Packed) -> None:
        if value.redacted:
            self.problem("partly", f"a result of {name} holds something that was redacted")
        for problem in value.problems:
            self.problem("partly", f"a result of {name} could not be kept: {problem}")


def _size(value: Taken | None) -> int:
    if value is None:
        return 0
    return len(value) if isinstance(value, bytes) else _ODD_BYTES


def _weight(record: dict[str, Any]) -> int:
    return len(record.get("v") or "") + len(record.get("a") or "") + _RECORD_BYTES


def _parts(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Records in portions that fit into an event."""
    parts: list[list[dict[str, Any]]] = [[]]
    size = 0
    for record in records:
        coming = _weight(record)
        if parts[-1] and size + coming > MAX_PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += coming
    return parts
