"""The tape of one run while it is recorded: records in parts, each written when a call has ended."""

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from tracereel import _native
from tracereel._clock import sortable_id
from tracereel.tape import format as tape_format
from tracereel.tape.payloads import Packed, Payloads, hash_of
from tracereel.tape.turns import AllTurns

if TYPE_CHECKING:
    from tracereel._privacy import Privacy

MAX_TAPE_BYTES: Final = 64 * 1024 * 1024
MAX_HELD_BYTES: Final = 4 * 1024 * 1024
"""What a run may hold in memory until it is known whether it fails."""
MAX_PART_BYTES: Final = 512 * 1024
MAX_REASONS: Final = 20


class Sink(Protocol):
    """Where the parts of one tape go."""

    def write(self, tape_id: str, part: int, records: list[dict[str, Any]]) -> None:
        """Keep a part."""


class Node:
    """A call that has begun: its tape, its number, and whether it is inside a boundary."""

    __slots__ = ("inside", "number", "tape")

    def __init__(self, tape: "RunTape", number: int, *, inside: bool) -> None:
        self.tape = tape
        self.number = number
        self.inside = inside


class RunTape:
    """The tape of one run, while it is recorded; safe to use from several threads."""

    def __init__(self, sink: Sink, privacy: "Privacy | None", *, held: bool = False) -> None:
        self.tape_id = sortable_id("tap")
        self.privacy = privacy
        self.root = Node(self, 0, inside=False)
        self.refused = False
        """Whether nothing that could be served may be kept."""
        self.turns = AllTurns()
        self._sink = sink
        self._held = held
        self._lock = _native.RLock()
        self._started = time.perf_counter_ns()
        self._records: list[dict[str, Any]] = []
        self._size = 0
        self._waiting = 0
        self._part = 0
        self._numbers = itertools.count(1)
        self._orders = itertools.count(1)
        self._lanes: dict[int, int] = {}
        self._payloads = Payloads(self._add)
        self._reasons: set[str] = set()
        self._over = False
        self._open = 0

    def begin(self, record: dict[str, Any]) -> None:
        """Write where the run begins."""
        with self._lock:
            self._add(record)

    def open(
        self,
        around: Node,
        *,
        kind: str,
        name: str,
        function: str,
        form: str,
        arguments: Any,
        effect: str = "",
    ) -> Node:
        """A call has begun."""
        boundary = kind in tape_format.BOUNDARIES and form != "block"
        with self._lock:
            node = Node(self, next(self._numbers), inside=around.inside or boundary)
            record: dict[str, Any] = {"r": "open", "n": node.number, "p": around.number, "k": kind}
            record["name"] = name
            record["f"] = function
            record["c"] = form
            if boundary or around is self.root:
                record["a"] = self._payloads.put(arguments)
            record["h"] = hash_of(arguments)
            lane = self._lanes.setdefault(threading.get_ident(), len(self._lanes))
            if lane:
                record["l"] = lane
            if task := self.turns.task():
                record["j"] = task
            record["t"] = self._now()
            if around.inside:
                record["i"] = 1
            if effect:
                record["e"] = effect
            self._open += boundary
            self._add(record)
        return node

    def give(
        self,
        node: Node,
        how: str,
        value: Packed | None,
        *,
        turn: tuple[int, int] | None,
        waited: bool,
        chunk: bool = False,
        awaited: bool = False,
    ) -> None:
        """A call has given a part of a stream, or ended."""
        with self._lock:
            record: dict[str, Any] = {"r": "chunk" if chunk else "end", "n": node.number}
            record["q"] = next(self._orders)
            if turn is not None:
                record["g"] = turn
            if waited:
                record["s"] = 1
            if awaited:
                record["w"] = 1
            record["t"] = self._now()
            if not chunk:
                record["how"] = how
                self._open -= 1
            if value is not None:
                record["v"] = self._payloads.put(value.data)
                self._check(record, value)
            self._add(record)
            self.write()

    def _check(self, record: dict[str, Any], value: Packed) -> None:
        if record["v"] is None:
            self.problem("partly", "a result was too long to be kept")
        if value.redacted:
            self.problem("partly", "a result holds something that was redacted")
        for problem in value.problems:
            self.problem("partly", f"a result could not be kept: {problem}")

    def decided(self, around: Node, decision_type: str, value: Packed) -> None:
        """A decision was taken."""
        with self._lock:
            reference = self._payloads.put(value.data)
            self._add({"r": "decision", "p": around.number, "type": decision_type, "v": reference})

    def problem(self, state: str, reason: str) -> None:
        """Something keeps the run from being re-executed, or from being so wholly."""
        with self._lock:
            self.refused = self.refused or state == "no"
            if reason not in self._reasons and len(self._reasons) < MAX_REASONS:
                self._reasons.add(reason)
                self._add({"r": "problem", "state": state, "reason": reason})

    def close(self, how: str, value: Packed | None) -> None:
        """The run has ended."""
        with self._lock:
            record: dict[str, Any] = {"r": "closed", "how": how, "t": self._now()}
            record["unfinished"] = max(0, self._open)
            if value is not None:
                record["v"] = self._payloads.put(value.data)
            self._add(record)
            self.write()
            if self._held:
                self._records.clear()
                self._over = True

    def keep(self) -> None:
        """Something has failed: what waits in memory leaves, and the rest with it."""
        with self._lock:
            self._held = False
            self.write()

    def write(self) -> None:
        """Hand what there is to the sink."""
        with self._lock:
            if self._held or not self._records:
                return
            records, self._records, self._waiting = self._records, [], 0
            for part in _parts(records):
                self._sink.write(self.tape_id, self._part, part)
                self._part += 1

    def _add(self, record: dict[str, Any]) -> None:
        if self._over:
            return
        size = len(record.get("v") or "") + len(record.get("a") or "") + 150
        self._size += size
        self._waiting += size
        limit = MAX_HELD_BYTES if self._held else MAX_TAPE_BYTES
        if self._size > limit:
            self._over = True
            reason = f"the tape is longer than {limit} bytes"
            record = {"r": "problem", "state": "partly", "reason": reason}
        self._records.append(record)
        if self._waiting > MAX_PART_BYTES:
            self.write()

    def _now(self) -> int:
        return (time.perf_counter_ns() - self._started) // 1000


def _parts(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Records in portions that fit into an event."""
    parts: list[list[dict[str, Any]]] = [[]]
    size = 0
    for record in records:
        coming = len(record.get("v") or "") + 150
        if parts[-1] and size + coming > MAX_PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += coming
    return parts
