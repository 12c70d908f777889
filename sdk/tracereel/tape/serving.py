"""Handlers of single calls in a re-execution: served, overridden, repeated, live or outermost."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tracereel._core import error_details
from tracereel._core.tape_session import Live, Served
from tracereel.errors import ReplayStoppedError
from tracereel.tape import codec
from tracereel.tape.divergence import Divergence, DivergenceError
from tracereel.tape.format import Call, Given
from tracereel.tape.inner_usage import USAGE, repeat
from tracereel.tape.overrides import Override
from tracereel.tape.recording import MAX_ITEMS
from tracereel.tape.result_order import NOT_GIVEN, StalledError
from tracereel.tape.statuses import ScopeCall

if TYPE_CHECKING:
    from tracereel._core.context import Execution
    from tracereel.tape.player import Player


MIN_LONGER: Final = 1.0
"""Seconds by which an interrupted call must wait longer than on the tape to be another one."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """Call that the program makes; the fields are those of `TapeSession.begin`."""

    execution: "Execution | None"
    around: "Execution | None"
    kind: str
    name: str
    function: Any
    arguments: Any
    form: str
    effect: str


class RootCall(Live):
    """Outermost call of the run; its result is compared with the tape."""

    __slots__ = ("_items", "_player", "_status")

    def __init__(self, player: "Player", status: ScopeCall | None) -> None:
        self._player = player
        self._status = status
        self._items: list[Any] | None = None

    def returned(self, result: Any) -> None:
        """Compare the result of the run."""
        items = self._items
        whole = result if items is None else {"items": items, "result": result}
        self._player.ended("returned", whole)
        if self._status is not None:
            self._status.returned(result)

    def raised(self, error: BaseException) -> None:
        """Compare the exception of the run."""
        if isinstance(error, ReplayStoppedError):
            return
        how = "raised"
        if error_details.cancels(error):
            how = "closed" if isinstance(error, GeneratorExit) else "cancelled"
        if how == "raised":
            self._player.ended(how, error)
            return
        # Its caller cannot handle a divergence; the end of the replay block raises it again.
        with suppress(DivergenceError):
            streams = how == "closed" and self._items is not None
            self._player.ended(how, {"items": self._items, "result": None} if streams else error)

    def gave(self, item: Any) -> None:
        """Collect an item of the run's stream."""
        self._items = self._items if self._items is not None else []
        if len(self._items) < MAX_ITEMS:
            self._items.append(item)


class LiveCall(Live):
    """Call that runs live, perhaps with changed arguments."""

    __slots__ = ("_arguments", "_function")

    def __init__(self, arguments: dict[str, Any], function: Any = None) -> None:
        self._arguments = arguments
        self._function = function

    def changed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the arguments with the overridden ones."""
        others = dict(self._arguments)
        if others and args and self._function is not None:
            # Replace positional arguments in place.
            names = list(inspect.signature(self._function).parameters)
            args = tuple(
                others.pop(name, value) for name, value in zip(names, args, strict=False)
            ) + tuple(args[len(names) :])
        return args, {**kwargs, **others}


class _GivenAtOnce(Served):
    """Call whose result does not wait for its turn on the tape."""

    async def give_async(self) -> Any:
        return self.give()

    async def stream_async(self) -> AsyncIterator[Any]:
        for item in self.stream():
            yield item

    def stopped(self, error: BaseException) -> None:
        """Do nothing."""


class Forced(_GivenAtOnce):
    """Call whose result an override sets."""

    def __init__(self, override: Override) -> None:
        self._override = override
        self.awaited = False

    def give(self) -> Any:
        """Return a copy of the value, or raise the exception of the override."""
        if self._override.raises is not None:
            raise self._override.raises
        return codec.decode(codec.encode(self._override.result).data)

    def stream(self) -> Iterator[Any]:
        """Return the items of the override."""
        return iter(self.give())


class RepeatedCall(_GivenAtOnce):
    """Call that is not on the tape and returns an earlier result at once."""

    def __init__(self, player: "Player", call: Call) -> None:
        self._player = player
        self._chunks = call.chunks
        self._end: Any = call.end
        self.awaited = self._end is not None and bool(self._end.awaited)

    def give(self) -> Any:
        """Return the earlier result."""
        return self._player.value(self._end)

    def stream(self) -> Iterator[Any]:
        """Return the items of the earlier stream."""
        return map(self._player.value, self._chunks)


class ServedCall:
    """Call that is served from the tape."""

    def __init__(self, player: "Player", call: Call, execution: "Execution | None" = None) -> None:
        self._player = player
        self._call = self.call = call
        self._execution = execution
        self.awaited = call.end is not None and bool(call.end.awaited)

    def give(self) -> Any:
        """Return the recorded result in its turn."""
        end = self._call.end
        if end is None or end.how in NOT_GIVEN:
            self._without_end()
        self._note_usage()
        return self._at_its_turn(end)

    def _at_its_turn(self, given: Any) -> Any:
        try:
            self._player.reel.wait(given)
        except StalledError:
            error = self._player.stalled(given)
            if error is not None:
                raise error from None
            self._player.reel.done(given)
        # Advance the clock by the recorded duration, for programs that read it next.
        self._player.loops.reach(given.at)
        return self._player.value(given)

    async def give_async(self) -> Any:
        """Return the recorded result in its turn."""
        end, player = self._call.end, self._player
        if end is None:
            await player.reel.wait_for_ever()
            raise AssertionError("a call without an end on the tape cannot return")
        began = player.clock.elapsed()
        try:
            await player.reel.wait_async(end)
        except asyncio.CancelledError:
            self._compare_limit(player.clock.elapsed() - began, end)
            raise
        if end.how in NOT_GIVEN:
            self._without_end()
        self._note_usage()
        return player.value(end)

    def _note_usage(self) -> None:
        """Record the tokens of the call and of model calls in it again, whose code does not run."""
        end, execution = self._call.end, self._execution
        if end is not None and execution is not None:
            known: dict[str, Any] = {name: end.usage[name] for name in USAGE if name in end.usage}
            execution.set(**known)
            repeat(execution, end.used)

    def _compare_limit(self, seconds: float, end: Given) -> None:
        """Report a call that was interrupted on the tape, and waits much longer here for that."""
        recorded = (end.at - self._call.at) / 1e6
        if end.how != "cancelled" or seconds < max(2 * recorded, recorded + MIN_LONGER):
            return
        call = self._call
        detail = f"it was interrupted after {seconds:.3g} s, and after {recorded:.3g} s on the tape"
        # The program handles the interruption; the end of the replay block raises the divergence.
        with suppress(DivergenceError):
            self._player.differs(
                Divergence("stream", call.name, call.name, 0, detail=detail, call_kind=call.kind)
            )

    def _without_end(self) -> None:
        """Report a call that was interrupted on the tape but not in this run."""
        player, call = self._player, self._call
        if not player.tape.complete and call.end is None:
            player.end_of_tape(f"{call.name} had been called, and what it gave is not on the tape")
        how = call.end.how if call.end is not None else "has not ended"
        player.diverged(
            Divergence(
                *("stream", call.name, call.name, 0),
                detail=f"on the tape it was {how}",
                call_kind=call.kind,
            )
        )
        raise DivergenceError(player.report.divergences[-1])

    def stream(self) -> Iterator[Any]:
        """Yield each recorded item in its turn."""
        for chunk in self._call.chunks:
            yield self._at_its_turn(chunk)

    async def stream_async(self) -> AsyncIterator[Any]:
        """Yield each recorded item in its turn."""
        for chunk in self._call.chunks:
            await self._player.reel.wait_async(chunk)
            yield self._player.value(chunk)

    def stopped(self, _error: BaseException) -> None:
        """Handle a stream that the program closed early, and note a difference."""
        call, player = self._call, self._player
        self._note_usage()
        for given in call.results():
            player.reel.done(given)
        if call.end is not None and call.end.how == "returned" and not player.over:
            player.report.notes.append(
                f"Note: the stream of {call.name} was closed early, and read to its end on the tape."
            )
