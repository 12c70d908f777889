"""What a re-execution puts in the place of the program's recorder and tape, for its own code only."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracereel import config as _config
from tracereel._recorder import Recorder
from tracereel._shipper import FlushResult
from tracereel.tape.taped import Live, Session

if TYPE_CHECKING:
    from tracereel._context import Execution, Trace

_NOWHERE: Final = Path("/nonexistent/tracereel")
_RUNS: Final = Live()


class QuietRecorder(Recorder):
    """A recorder that keeps nothing: a replay leaves no events, metrics or log lines."""

    @classmethod
    def made(cls, *, content: bool) -> "QuietRecorder":
        """One with settings that touch nothing; with content only where a tape is recorded of it."""
        from prometheus_client import CollectorRegistry

        settings: dict[str, Any] = {
            "spool_dir": _NOWHERE,
            "other_spans": False,
            "service": "replay",
            "capture_content": content,
        }
        made = cls(_config.load({}, **settings), registry=CollectorRegistry())
        made.writes_at_once = False
        return made

    def record(self, event: dict[str, Any], trace: "Trace | None", **_: Any) -> None:
        del event, trace

    def record_all(self, events: list[Any], trace: Any, **_: Any) -> None:
        del events, trace

    def keep(self, event: dict[str, Any], trace: "Trace | None", **_: Any) -> None:
        del event, trace

    def flush(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        del timeout, at_exit
        return FlushResult(0, 0, 0)

    def close(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        self.closed = True
        return self.flush(timeout, at_exit=at_exit)


class Apart:
    """A `Session` for the code of a fork; everybody else's calls go where they went before."""

    def __init__(self, own: Session, others: "Session | None", is_here: Callable[[], bool]) -> None:
        self._own = own
        self._others = others
        self._is_here = is_here

    def _session(self) -> "Session | None":
        return self._own if self._is_here() else self._others

    def begin(self, execution: "Execution | None", **about: Any) -> Any:
        """A call begins."""
        session = self._session()
        return session.begin(execution, **about) if session is not None else _RUNS

    def begins_block(self, execution: "Execution", effect: str) -> None:
        """A `with` block is about to run."""
        session = self._session()
        if session is not None:
            session.begins_block(execution, effect)

    def ended_block(self, execution: "Execution", error: BaseException | None) -> None:
        """A `with` block has ended."""
        session = self._session()
        if session is not None:
            session.ended_block(execution, error)

    def decide(self, execution: "Execution | None", decision_type: str) -> tuple[bool, Any]:
        """Whether a decision is forced, and to what."""
        session = self._session()
        return session.decide(execution, decision_type) if session is not None else (False, None)

    def decided(
        self, execution: "Execution | None", decision_type: str, result: Any, candidates: Any
    ) -> None:
        """A decision has been taken."""
        session = self._session()
        if session is not None:
            session.decided(execution, decision_type, result, candidates)
