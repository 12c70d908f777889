"""Fork session: serves calls from a tape, then runs live, and records everything."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tracereel._core.tape_session import Live, TapeSession
from tracereel.tape.player import Player
from tracereel.tape.recording import Recordings

if TYPE_CHECKING:
    from tracereel._core.context import Execution


class Branch:
    """`TapeSession` that plays a tape and records the result as a new run."""

    def __init__(self, player: Player, recordings: Recordings) -> None:
        self._player = player
        self._recordings = recordings
        self.begins_block = player.begins_block
        self.ended_block = recordings.ended_block
        self.decide = player.decide
        self.used = recordings.used

    def begin(self, execution: "Execution | None", **about: Any) -> Any:
        """Begin a call in the recording and in the player."""
        recorded = self._recordings.begin(execution, **about)
        with _reporting(recorded):
            played = self._player.begin(execution, **about)
        if isinstance(played, Live):
            return _BothLive(recorded, played)
        return _BothServed(recorded, played)

    def decided(
        self, execution: "Execution | None", decision_type: str, result: Any, candidates: Any
    ) -> None:
        """Record a decision and compare it with the tape."""
        self._recordings.decided(execution, decision_type, result, candidates)
        self._player.decided(execution, decision_type, result, candidates)


class ScopedSession:
    """`TapeSession` for the code of a fork; other calls use the previous session."""

    def __init__(
        self, own: Branch, others: TapeSession | None, is_here: Callable[[], bool]
    ) -> None:
        self._own = own
        self._others = others or TapeSession()
        self._is_here = is_here

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own if self._is_here() else self._others, name)


@contextmanager
def _reporting(recorded: Live) -> Iterator[None]:
    """Record an exception of the block as the end of the call."""
    try:
        yield
    except BaseException as error:
        recorded.raised(error)
        raise


class _BothLive(Live):
    """Call that runs live and is recorded and compared."""

    __slots__ = ("_played", "_recorded")

    def __init__(self, recorded: Live, played: Live) -> None:
        self._recorded = recorded
        self._played = played

    def changed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._played.changed(args, kwargs)

    def returned(self, result: Any) -> None:
        self._recorded.returned(result)
        self._played.returned(result)

    def raised(self, error: BaseException) -> None:
        self._recorded.raised(error)
        self._played.raised(error)

    def gave(self, item: Any) -> None:
        self._recorded.gave(item)
        self._played.gave(item)

    def gives_coroutine(self) -> None:
        self._recorded.gives_coroutine()


class _BothServed:
    """Call that is served from the tape and recorded as if it had run."""

    def __init__(self, recorded: Live, served: Any) -> None:
        self._recorded = recorded
        self._served = served
        self.awaited = served.awaited

    def give(self) -> Any:
        with _reporting(self._recorded):
            result = self._served.give()
        self._recorded.returned(result)
        return result

    async def give_async(self) -> Any:
        with _reporting(self._recorded):
            result = await self._served.give_async()
        self._recorded.returned(result)
        return result

    def stream(self) -> Iterator[Any]:
        for item in self._served.stream():
            self._recorded.gave(item)
            yield item

    async def stream_async(self) -> AsyncIterator[Any]:
        async for item in self._served.stream_async():
            self._recorded.gave(item)
            yield item

    def stopped(self, error: BaseException) -> None:
        # First, because it notes the usage that the recording keeps.
        self._served.stopped(error)
        self._recorded.raised(error)
