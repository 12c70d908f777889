"""Replacement for the program's recorder during a re-execution."""

from pathlib import Path
from typing import Any, Final

from tracereel import config as _config
from tracereel._core.recorder import Recorder
from tracereel._export.shipper import FlushResult

_NOWHERE: Final = Path("/nonexistent/tracereel")


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

    def record_all(self, events: list[Any], trace: Any, **_: Any) -> bool:
        """Drop events."""
        del events, trace
        return False

    def keep(self, events: list[Any], trace: Any, **_: Any) -> bool:
        """Drop events."""
        del events, trace
        return False

    def flush(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Return that there is nothing to deliver."""
        del timeout, at_exit
        return FlushResult(0, 0, 0)

    def close(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Close the recorder."""
        self.closed = True
        return self.flush(timeout, at_exit=at_exit)
