"""Names what is different, first things first: changed, extra, missing or out of order.

Of a call that is not where the tape has it, only what follows tells what happened. Calls are served from
the tape meanwhile, so nothing is lost by looking on: the suspicion is settled by the next call that fits
one reading and not the other, or by the end of the run.
"""

from collections.abc import Callable
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
    """The first thing that was not as on the tape; `call` is the call of the tape it is about."""

    divergence: Divergence
    call: Call
    arguments: Any = None
    """Of a call with other arguments: those."""


class Judge:
    """Follows the calls of the main thread, in which order has a meaning."""

    def __init__(self, tape: Tape, found: Callable[[Divergence], None]) -> None:
        self._tape = tape
        self._found = found
        self._expected = [call for call in tape.boundaries() if call.lane == 0]
        self._position = {call.number: index for index, call in enumerate(self._expected)}
        self._seen: set[int] = set()
        self._at = 0
        self._count = 0
        self.suspicion: Suspicion | None = None

    def called(self, call: Call, path: str, location: Callable[[], str | None], lane: int) -> None:
        """A call was made that is on the tape, with these arguments."""
        self._count += 1
        suspicion = self.suspicion
        self.comes_after_all(call)
        if lane or call.lane or call.number not in self._position:
            self._seen.add(call.number)
            return
        expected = self._next()
        if expected is not None and not _together(expected, call) and suspicion is None:
            self.suspicion = Suspicion(
                Divergence(
                    "missing",
                    expected.name,
                    _path(self._tape, expected),
                    self._position[expected.number] + 1,
                    location=location(),
                    detail=f"{path} was called in its place\n{self._recorded(expected)}",
                ),
                expected,
            )
        self._seen.add(call.number)

    def comes_after_all(self, call: Call) -> None:
        """A call was made: what was skipped may be it, or what stood for a changed call another one."""
        suspicion = self.suspicion
        if suspicion is None or suspicion.call is not call:
            return
        kind: Kind = "out of order" if suspicion.divergence.kind == "missing" else "extra"
        detail = suspicion.divergence.detail
        if kind == "extra":
            detail = f"it was called as {shown_call(call.name, suspicion.arguments)}"
        self._settle(replace(suspicion.divergence, kind=kind, differences=(), detail=detail))

    def changed(
        self, call: Call, path: str, arguments: Any, location: Callable[[], str | None]
    ) -> None:
        """A call was made that is on the tape with other arguments only."""
        self._count += 1
        self.certain()
        recorded = self._arguments(call)
        divergence = Divergence(
            "changed",
            call.name,
            path,
            self._count,
            differences(recorded, arguments),
            location(),
        )
        self._seen.add(call.number)
        self.suspicion = Suspicion(divergence, call, arguments)

    def not_there(
        self, name: str, path: str, arguments: Any, location: str | None, *, lost: bool = False
    ) -> None:
        """A call was made that cannot be on the tape; `lost` in a thread that does not know the run."""
        self._count += 1
        self.certain()
        self._found(
            Divergence(
                "extra",
                name,
                path,
                self._count,
                location=location,
                detail=f"it was called as {shown_call(name, arguments)}" + (_LOST if lost else ""),
            )
        )

    def certain(self) -> None:
        """Something else went wrong: the suspicion stands as it is."""
        if self.suspicion is not None:
            self._seen.add(self.suspicion.call.number)  # it is told once
            self._settle(self.suspicion.divergence)

    def at_the_end(self, asked: Callable[[Call], bool]) -> None:
        """The run is over: what was not called is missing, in the order of the tape."""
        self.certain()
        for position, call in enumerate(self._tape.boundaries(), 1):
            if call.number not in self._seen and not asked(call):
                self._seen.add(call.number)
                path, recorded = _path(self._tape, call), self._recorded(call)
                self._found(Divergence("missing", call.name, path, position, detail=recorded))

    def _arguments(self, call: Call) -> Any:
        try:
            return self._tape.data(call.arguments)
        except ValueError:
            return {}

    def _recorded(self, call: Call) -> str:
        """What a call was on the tape, in short."""
        made = shown_call(call.name, self._arguments(call))
        end = call.end
        if end is None or end.value is None:
            return f"on the tape it was {made}"
        try:
            gave = shown(self._tape.data(end.value))
        except ValueError:
            return f"on the tape it was {made}"
        return f"on the tape it was {made}, and {end.how} {gave}"

    def _settle(self, divergence: Divergence) -> None:
        self.suspicion = None
        self._found(divergence)

    def _next(self) -> Call | None:
        while self._at < len(self._expected) and self._expected[self._at].number in self._seen:
            self._at += 1
        return self._expected[self._at] if self._at < len(self._expected) else None


def _together(expected: Call, call: Call) -> bool:
    """Whether two calls have no order: those that several tasks make before any of them gets a result."""
    if expected is call:
        return True
    return expected.after == call.after and expected.task != call.task


def _path(tape: Tape, call: Call) -> str:
    names = []
    at: Call | None = call
    while at is not None:
        names.append(at.name)
        at = tape.calls.get(at.parent)
    return " / ".join(reversed(names))
