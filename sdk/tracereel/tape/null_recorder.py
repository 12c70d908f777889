"""Replacements for the program's recorder and tape session during a re-execution."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracereel import config as _config
from tracereel._core.recorder import Recorder
from tracereel._core.tape_session import Live, TapeSession
from tracereel._export.shipper import FlushResult

if TYPE_CHECKING:
    from tracereel._core.context import Execution

_NOWHERE: Final = Path("/nonexistent/tracereel")
_RUNS: Final = Live()


class QuietRecorder(Recorder):
    """Recorder that drops everything, so that a replay leaves no events, metrics or log lines."""

    @classmethod
    def made(cls, *, content: bool) -> "QuietRecorder":
        """Create a recorder without side effects; `content` is needed only to record a tape."""
        from prometheus_client import CollectorRegistry

        settings: dict[str, Any] = {
            "spool_dir": _NOWHERE,
            "other_spans": False,
            "service": "replay",
            "capture_content": content,
        }
        return cls(_config.load({}, **settings), registry=CollectorRegistry())

    def record_all(self, events: list[Any], trace: Any, **_: Any) -> None:
        del events, trace

    def keep(self, events: list[Any], trace: Any, **_: Any) -> None:
        del events, trace

    def flush(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        del timeout, at_exit
        return FlushResult(0, 0, 0)

    def close(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        self.closed = True
        return self.flush(timeout, at_exit=at_exit)


class Apart:
    """`Session` for the code of a fork; other calls use the previous session."""

    def __init__(
        self, own: TapeSession, others: "TapeSession | None", is_here: Callable[[], bool]
    ) -> None:
        self._own = own
        self._others = others
        self._is_here = is_here

    def _session(self) -> "TapeSession | None":
        return self._own if self._is_here() else self._others

    def begin(self, execution: "Execution | None", **about: Any) -> Any:
        """Begin a call."""
        session = self._session()
        return session.begin(execution, **about) if session is not None else _RUNS

    def begins_block(self, execution: "Execution", effect: str) -> None:
        """Check whether a `with` block may run."""
        session = self._session()
        if session is not None:
            session.begins_block(execution, effect)

    def ended_block(self, execution: "Execution", error: BaseException | None) -> None:
        """Record the end of a `with` block."""
        session = self._session()
        if session is not None:
            session.ended_block(execution, error)

    def decide(self, execution: "Execution | None", decision_type: str) -> tuple[bool, Any]:
        """Return whether a decision is forced, and its value."""
        session = self._session()
        return session.decide(execution, decision_type) if session is not None else (False, None)

    def decided(
        self, execution: "Execution | None", decision_type: str, result: Any, candidates: Any
    ) -> None:
        """Record a decision."""
        session = self._session()
        if session is not None:
            session.decided(execution, decision_type, result, candidates)
