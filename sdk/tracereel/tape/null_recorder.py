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
    from tracereel._export.trace_state import TraceState

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
        made = cls(_config.load({}, **settings), registry=CollectorRegistry())
        made.writes_at_once = False
        return made

    def record(self, event: dict[str, Any], trace: "TraceState | None", **_: Any) -> None:
        """Drop an event."""

    def record_all(self, events: list[Any], trace: Any, **_: Any) -> None:
        """Drop events."""

    def keep(self, event: dict[str, Any], trace: "TraceState | None", **_: Any) -> None:
        """Drop an event."""

    def flush(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Return that there is nothing to deliver."""
        del timeout, at_exit
        return FlushResult(0, 0, 0)

    def close(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Close the recorder."""
        self.closed = True
        return self.flush(timeout, at_exit=at_exit)


class _NoTape(TapeSession):
    """Session that runs every call unrecorded."""

    def begin(self, execution: "Execution | None", **about: Any) -> Live:
        del execution, about
        return _RUNS

    def decide(self, execution: "Execution | None", decision_type: str) -> tuple[bool, Any]:
        del execution, decision_type
        return False, None


class Apart:
    """`TapeSession` for the code of a fork; other calls use the previous session."""

    def __init__(
        self, own: TapeSession, others: TapeSession | None, is_here: Callable[[], bool]
    ) -> None:
        self._own = own
        self._others = others or _NoTape()
        self._is_here = is_here

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own if self._is_here() else self._others, name)
