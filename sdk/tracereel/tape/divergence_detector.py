"""Classification of divergences as changed, extra, missing or out of order.

A call that does not match the tape can be explained in more than one way. Calls are still served
from the tape, so the decision is deferred: the next call that fits only one explanation decides,
or the end of the run.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from tracereel.tape.differences import differences, shown, shown_call
from tracereel.tape.divergence import Divergence, Kind
from tracereel.tape.format import Call, Tape

_LOST: Final = (
    "\nin a thread that does not know the run, so it was no part of it when it was recorded:"
    " hand the work over with tracereel.carry"
)


@dataclass(slots=True)
class Suspicion:
    """First unexplained difference, and the call of the tape that it concerns."""

    divergence: Divergence
    call: Call
    arguments: Any = None
    """Arguments of this run, if they differ from the tape."""
    skipped: tuple[Call, ...] = ()
    """Earlier calls of the tape that had not been made yet."""


class DivergenceDetector:
    """Compares the calls of the main thread with the order on the tape."""

    def __init__(
        self, tape: Tape, found: Callable[[Divergence], None], made: Container[int]
    ) -> None:
        self._tape = tape
        self._found = found
        self._made = made
        """Numbers of the calls of the tape that the run has made."""
        self._expected = [call for call in tape.boundaries() if call.lane == 0]
        self._position = {call.number: index for index, call in enumerate(self._expected)}
        self._siblings: dict[int, list[Call]] = {}
        for call in tape.boundaries():
            self._siblings.setdefault(call.parent, []).append(call)
        self._seen: set[int] = set()
        self._at = 0
        self._count = 0
        self.suspicion: Suspicion | None = None

    def called(self, call: Call, path: str, location: Callable[[], str | None], lane: int) -> None:
        """Handle a call that is on the tape with the same arguments."""
        self._count += 1
        suspicion = self.suspicion
        self.made_later(call)
        if lane or call.lane or call.number not in self._position:
            self._seen.add(call.number)
            return
        expected = self._next()
        if expected is not None and not _together(expected, call) and suspicion is None:
            came = path
            if call.name == expected.name:
                came = f"{path}, as {shown_call(call.name, self._arguments(call))},"
            self.suspicion = Suspicion(self._in_its_place(expected, came, location()), expected)
        self._seen.add(call.number)

    def overtaken(self, call: Call) -> list[Call]:
        """Return calls of other threads that had ended on the tape before this one could begin.

        They have not been made yet. Concurrent tasks, and jobs of a pool that were given to it
        together, are left out, because their order may vary.
        """
        if self.suspicion is not None:
            return []
        around = self._tape.calls.get(call.parent)
        if not call.lane and around is not None and call.task != around.task:
            return []
        return [
            each
            for each in self._siblings.get(call.parent, ())
            if (each.lane or call.lane)
            and call.had_to_follow(each)
            and each.number not in self._made
        ]

    def overtook(self, call: Call, missed: Call, path: str, location: str | None) -> None:
        """Suspect that a call was made before another one that is due."""
        if self.suspicion is None and missed.number not in self._made:
            detail = (
                f"{path}, as {shown_call(call.name, self._arguments(call))}, was called first\n"
            )
            position = 1 + self._tape.boundaries().index(missed)
            self.suspicion = Suspicion(self._missing(missed, position, detail, location), missed)

    def made_later(self, call: Call) -> None:
        """Resolve the suspicion if its call is made later: it is out of order, or was extra."""
        suspicion = self.suspicion
        if suspicion is None or suspicion.call is not call:
            return
        kind: Kind = "out of order" if suspicion.divergence.kind == "missing" else "extra"
        detail = suspicion.divergence.detail
        if kind == "extra":
            detail = f"it was called as {shown_call(call.name, suspicion.arguments)}"
        self.suspicion = None
        self._found(replace(suspicion.divergence, kind=kind, differences=(), detail=detail))

    def changed(
        self, call: Call, path: str, arguments: Any, location: Callable[[], str | None]
    ) -> None:
        """Handle a call that is on the tape only with other arguments."""
        self._count += 1
        self.confirm()
        differing = differences(self._arguments(call), arguments)
        divergence = Divergence(
            *("changed", call.name, path, self._count, differing, location()),
            call_kind=call.kind,
            arguments=(self._arguments(call), arguments),
        )
        skipped = self._skipped(call)
        self._seen.add(call.number)
        self.suspicion = Suspicion(divergence, call, arguments, skipped)

    def _skipped(self, call: Call) -> tuple[Call, ...]:
        """Return calls that precede this one on the tape and were not made."""
        position = self._position.get(call.number)
        if position is None:
            return ()
        before = self._expected[self._at : position]
        return tuple(
            each for each in before if each.number not in self._seen and not _together(each, call)
        )

    def unexpected(
        self,
        kind: str,
        name: str,
        path: str,
        arguments: Any,
        location: str | None,
        *,
        lost: bool = False,
    ) -> None:
        """Report an extra call; `lost` if its thread has no run context."""
        self._count += 1
        self.confirm()
        detail = f"it was called as {shown_call(name, arguments)}{_LOST if lost else ''}"
        extra = Divergence(
            *("extra", name, path, self._count),
            location=location,
            detail=detail,
            call_kind=kind,
        )
        self._found(extra)

    def confirm(self) -> None:
        """Report the pending suspicion unchanged."""
        if self.suspicion is not None:
            suspicion, self.suspicion = self.suspicion, None
            self._seen.add(suspicion.call.number)  # report it only once
            for call in suspicion.skipped:
                if call.number not in self._seen:
                    # The changed arguments were probably computed from the result of this call.
                    self._seen.add(call.number)
                    first = suspicion.divergence
                    self._found(self._in_its_place(call, first.path, first.location))
            self._found(suspicion.divergence)

    def at_the_end(self) -> None:
        """Report all calls of the tape that were not made, in order."""
        self.confirm()
        for divergence in self.missing():
            self._found(divergence)

    def missing(self) -> Iterator[Divergence]:
        """Yield the calls of the tape that were not made, in order and each only once."""
        for position, call in enumerate(self._tape.boundaries(), 1):
            if call.number not in self._seen and call.number not in self._made:
                self._seen.add(call.number)
                yield self._missing(call, position, "", None)

    def _missing(self, call: Call, position: int, detail: str, location: str | None) -> Divergence:
        path, detail = _path(self._tape, call), f"{detail}{self._recorded(call)}"
        return Divergence(
            *("missing", call.name, path, position),
            location=location,
            detail=detail,
            call_kind=call.kind,
        )

    def _in_its_place(self, call: Call, came: str, location: str | None) -> Divergence:
        """Return that a call is missing where another one was made."""
        position = self._position[call.number] + 1
        return self._missing(call, position, f"{came} was called in its place\n", location)

    def _arguments(self, call: Call) -> Any:
        try:
            return self._tape.data(call.arguments)
        except ValueError:
            return {}

    def _recorded(self, call: Call) -> str:
        """Return a short description of a call on the tape."""
        made = f"on the tape it was {shown_call(call.name, self._arguments(call))}"
        if call.end is None or call.end.value is None:
            return made
        try:
            return f"{made}, and {call.end.how} {shown(self._tape.data(call.end.value))}"
        except ValueError:
            return made

    def _next(self) -> Call | None:
        while self._at < len(self._expected) and self._expected[self._at].number in self._seen:
            self._at += 1
        return self._expected[self._at] if self._at < len(self._expected) else None


def _together(expected: Call, call: Call) -> bool:
    """Return whether the order of two calls does not count: only that within one task does."""
    return expected is call or expected.task != call.task


def _path(tape: Tape, call: Call) -> str:
    """Return the path of a call on the tape, numbered like the run's."""
    names = []
    at: Call | None = call
    while at is not None:
        around = tape.calls.get(at.parent)
        beside = around.children if around is not None else tape.roots()
        number = 1 + sum(
            (each.kind, each.name) == (at.kind, at.name) and each.number < at.number
            for each in beside
        )
        names.append(at.name if number == 1 else f"{at.name} #{number}")
        at = around
    return " / ".join(reversed(names))
