"""Tape of one run during recording, written in parts.

The calling thread only stores the encoded value. Redaction, hashing and writing happen later. A
tape that has not written recently writes at once. Otherwise a background thread writes it after
`WRITE_DELAY` seconds, so calls that end within milliseconds share a write.
"""

import itertools
import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from tracereel._core import recorder as _recorder
from tracereel._runtime import gevent_compat, guard
from tracereel._runtime.clock import sortable_id
from tracereel._runtime.compat import running_loop_or_none
from tracereel._runtime.wakeup import Wakeup
from tracereel.tape import format as tape_format
from tracereel.tape import outside, pool_jobs
from tracereel.tape.codec import EncodedValue
from tracereel.tape.inner_usage import InnerUsage
from tracereel.tape.loop_ticks import AllTurns
from tracereel.tape.payloads import INLINE, Packed, Payloads, finish, hash_of

if TYPE_CHECKING:
    from tracereel._redact.event_redaction import Privacy

MAX_TAPE_BYTES: Final = 64 * 1024 * 1024
MAX_HELD_BYTES: Final = 4 * 1024 * 1024
"""Bytes that a run may hold in memory until it fails or succeeds."""
MAX_PART_BYTES: Final = 512 * 1024
MAX_REASONS: Final = 20
_RECORD_BYTES: Final = 150
WRITE_DELAY: Final = 0.01
"""Longest delay, in seconds, before a finished call is written."""
_DELAY_NS: Final = round(WRITE_DELAY * 1e9)
_LONGEST_NS: Final = 10 * _DELAY_NS
"""Longest delay; after this the calling thread writes itself."""


class Sink(Protocol):
    """Destination of the parts of one tape."""

    def write(self, tape_id: str, part: int, records: list[dict[str, Any]]) -> None:
        """Write a part."""


class BatchWriter:
    """Thread that writes pending tapes; started when the first tape is added."""

    def __init__(self) -> None:
        self.tapes: weakref.WeakSet[RunTape] = weakref.WeakSet()
        """Tapes that a forked child disowns."""
        self._reset()
        os.register_at_fork(after_in_child=self._in_child)

    def _reset(self) -> None:
        self._lock = gevent_compat.RLock()
        self._wakeup = Wakeup()
        self._thread: gevent_compat.Thread | None = None
        self._pending: set[RunTape] = set()

    def _in_child(self) -> None:
        """Drop pending tapes in a forked child; the parent writes them."""
        self._reset()
        for tape in list(self.tapes):
            tape.disown()

    def add(self, tape: "RunTape") -> None:
        """Schedule a tape for writing."""
        self._pending.add(tape)
        if self._thread is None:
            self._start()
        self._wakeup.set()

    def write(self) -> None:
        """Write all pending tapes now."""
        pending = self._pending
        while pending:
            try:
                tape = pending.pop()
            except KeyError:  # the thread took the last tape
                return
            with guard.Guard("tape"):
                tape.write()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = self._thread = gevent_compat.thread(self._run, name="tracereel-tapes")
                try:
                    thread.start()
                except RuntimeError:  # the interpreter shuts down: the end of the run writes
                    self._thread = None

    def _run(self) -> None:
        wakeup = self._wakeup
        while True:
            wakeup.wait(3600.0)
            _sleep(WRITE_DELAY)
            wakeup.clear()
            self.write()


_sleep: Final = time.sleep
"""The real `time.sleep`; a replay replaces it to skip sleeps."""
_batch_writer: Final = BatchWriter()
_recorder.before_flush.append(_batch_writer.write)


class TapeNode:
    """Call in progress: its tape, its number, and whether it is inside a boundary."""

    __slots__ = ("bare", "covered", "inside", "number", "tape")

    def __init__(self, tape: "RunTape", number: int = 0, *, inside: bool = False) -> None:
        self.tape = tape
        self.number = number
        self.inside = inside
        self.bare = 0
        """Number of open boundaries directly in it that are no executions."""
        self.covered = False
        """Whether a model call in it is on the tape."""


class RunTape:
    """Tape of one run during recording; thread-safe."""

    def __init__(self, sink: Sink, privacy: "Privacy | None", *, held: bool = False) -> None:
        self.tape_id = sortable_id("tap")
        self.privacy = privacy
        self.root = TapeNode(self)
        self.refused = False
        """Whether recording is not allowed."""
        self.turns = AllTurns()
        self._sink = sink
        self._held = held
        self._lock = gevent_compat.RLock()
        self._started = time.perf_counter_ns()
        self._written = self._started - _DELAY_NS
        self._taken: list[dict[str, Any]] = []
        """Records whose values are not redacted yet."""
        self._records: list[dict[str, Any]] = []
        self._size = 0
        self._waiting = 0
        self._part = 0
        self._numbers = itertools.count(1)
        self._results = 0
        self._jobs = itertools.count(1)
        self._lanes: dict[int, int] = {}
        self._payloads = Payloads(self._put)
        self._reasons: set[str] = set()
        self._over = False
        self._open = 0
        self._names: dict[int, str] = {}
        """Names of the calls in progress."""
        self._called = False
        """Whether a write is scheduled."""
        _batch_writer.tapes.add(self)

    @property
    def open_calls(self) -> int:
        """Number of boundaries that have begun and not ended."""
        return self._open

    def new_job(self) -> pool_jobs.Job:
        """Return the number of a job that is given to a pool, and that of the results so far."""
        with self._lock:
            return next(self._jobs), self._results

    def begin(self, record: dict[str, Any]) -> None:
        """Add the header record."""
        with self._lock:
            self._add(record, 0)

    def open(
        self,
        node: TapeNode,
        around: TapeNode,
        *,
        kind: str,
        name: str,
        function: str,
        form: str,
        arguments: EncodedValue,
        effect: str = "",
        defaults: list[str] | None = None,
        apart: bool = False,
    ) -> None:
        """Record the beginning of a call and set the number of its node."""
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
            if running_loop_or_none() is not None and (task := self.turns.task()):
                record["j"] = task
            if jobs := pool_jobs.jobs_here(self):
                record["o"] = jobs
            if around.inside:
                record["i"] = 1
            if effect:
                record["e"] = effect
            if defaults:
                record["d"] = defaults
            if apart:
                record["x"] = 1
            if boundary:
                self._open += 1
                self._names[number] = name
            # `_add` inlined, because every call passes here.
            if not self._over:
                self._taken.append(record)
                self._waiting += arguments.size

    def give(
        self,
        node: TapeNode,
        how: str,
        value: EncodedValue,
        turn: tuple[int, int] | None,
        *,
        waited: bool = False,
        chunk: bool = False,
        awaited: bool = False,
        usage: dict[str, Any] | None = None,
        used: Sequence[InnerUsage] = (),
    ) -> None:
        """Record a stream item or the end of a call, with the tokens that it and calls in it used."""
        with self._lock:
            now = time.perf_counter_ns()
            self._results += 1
            record: dict[str, Any] = {
                "r": "chunk" if chunk else "end",
                "n": node.number,
                "q": self._results,
                "t": (now - self._started) // 1000,
                "v": value,
            }
            if turn is not None:
                record["g"] = turn
            if waited:
                record["s"] = 1
            if awaited:
                record["w"] = 1
            if usage:
                record["u"] = usage
            if used:
                record["m"] = list(used)
            if not chunk:
                record["how"] = how
                self._open -= 1
            if not self._over:
                self._taken.append(record)
                self._waiting += value.size
                if self._waiting > MAX_PART_BYTES:
                    self.write()
            since = now - self._written
            if since >= (_LONGEST_NS if self._called else _DELAY_NS):
                self.write()
            elif not self._called:
                self._called = True
                _batch_writer.add(self)

    def decided(
        self, around: TapeNode, decision_type: str, value: EncodedValue, among: EncodedValue | None
    ) -> None:
        """Record a decision, and its candidates if known."""
        record = {"r": "decision", "p": around.number, "type": decision_type, "v": value}
        if among is not None:
            record["among"] = among
        with self._lock:
            self._add(record, _size(value) + _size(among))

    def status(self, node: TapeNode, fields: dict[str, Any]) -> None:
        """Record how an agent or pipeline ended."""
        with self._lock:
            self._add({"r": "status", "n": node.number, **fields}, 0)

    def problem(self, state: str, reason: str, *, outside: bool = False) -> None:
        """Record a reason why the run is not, or not fully, replayable.

        Args:
            outside: whether it is about something that was seen outside of recorded calls.
        """
        with self._lock:
            self.refused = self.refused or state == "no"
            if reason in self._reasons or len(self._reasons) > MAX_REASONS:
                return
            if len(self._reasons) == MAX_REASONS:
                reason = f"there are more reasons; the first {MAX_REASONS} are listed"
            self._reasons.add(reason)
            record: dict[str, Any] = {"r": "problem", "state": state, "reason": reason}
            if outside:
                record["outside"] = True
            self._add(record, 0)

    def close(self, how: str, value: EncodedValue | None) -> None:
        """Record the end of the run."""
        with self._lock:
            record: dict[str, Any] = {"r": "closed", "how": how}
            record["t"] = (time.perf_counter_ns() - self._started) // 1000
            record["unfinished"] = max(0, self._open)
            if value is not None:
                record["v"] = value
            self._add(record, _size(value))
            outside.unwatch(self)
            if self._held:
                self._forget()
            else:
                self.write()

    def keep(self) -> None:
        """Write held parts and all later ones, because something failed."""
        with self._lock:
            self._held = False
            self.write()

    def disown(self) -> None:
        """Drop everything in a forked child; the tape belongs to the parent."""
        self._lock = gevent_compat.RLock()
        self._forget()

    def _forget(self) -> None:
        self._taken.clear()
        self._records.clear()
        self._over = True

    def write(self) -> None:
        """Write pending records to the sink."""
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
        """Append a finished record, within the size limit."""
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
        """Redact and encode pending records."""
        self._written = time.perf_counter_ns()
        self._called = False
        while self._taken:
            # Problems found on the way are appended and finished in the same loop.
            taken, self._taken, self._waiting = self._taken, [], 0
            for record in taken:
                if (value := record.get("v")) is not None:
                    record["v"] = self._finish_value(record, value)
                elif record["r"] == "open":
                    self._finish_arguments(record)
                self._put(record)

    def _finish_value(self, record: dict[str, Any], value: EncodedValue) -> str | None:
        text, packed = finish(value, self.privacy)
        reference = self._payloads.put_text(text)
        kind = record["r"]
        if kind in ("end", "chunk"):
            names, number = self._names, record["n"]
            name = names.get(number, "a call") if kind == "chunk" else names.pop(number, "a call")
            if reference is None:
                self.problem("partly", f"a result of {name} was too long to be kept")
            self._check(f"a result of {name}", packed)
        elif "among" in record:
            record["among"] = self._payloads.put_text(finish(record["among"], self.privacy)[0])
        return reference

    def _finish_arguments(self, record: dict[str, Any]) -> None:
        text, packed = finish(record["a"], self.privacy)
        if record["n"] == 1 and record["c"] != "block":
            self._check("an argument of the run", packed)
        if len(text) > INLINE:
            # The reader computes the hash of short arguments.
            record["h"] = hash_of(packed.data)
            if record.pop("scope", False):
                del record["a"]
                return
        record.pop("scope", None)
        record["a"] = self._payloads.put_text(text)

    def _check(self, what: str, value: Packed) -> None:
        if value.redacted:
            self.problem("partly", f"{what} holds something that was redacted")
        for problem in value.problems:
            self.problem("partly", f"{what} could not be kept: {problem}")


def _size(value: EncodedValue | None) -> int:
    return 0 if value is None else value.size


def _weight(record: dict[str, Any]) -> int:
    kept = 1 + len(record.get("m") or ())
    return len(record.get("v") or "") + len(record.get("a") or "") + kept * _RECORD_BYTES


def _parts(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Split records into parts that fit into an event."""
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
