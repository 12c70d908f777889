"""One log line per event, with the keys of the contract.

Lines go to the logger given to `configure`, else to structlog if the program has configured it, else
as JSON to the standard logger `tracereel.events`. Without a handler or `configure_logs` nothing is printed.
"""

import logging
import sys
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from tracereel import semconv
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel._telemetry.log_file import EventFile
from tracereel.errors import ConfigurationError

LOGGER_NAME: Final = "tracereel.events"

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
_WHO: Final = ("agent_name", "trace_id")

Line = tuple[str, str, tuple[str, ...]]
"""Line name, level and fields."""

LINES: Final[dict[str, Line]] = {
    # Parts of streams: too frequent for the info level.
    "agent.message.normalized": (
        "agent_message_normalized",
        "debug",
        (*_WHO, "message_type", "original_index"),
    ),
    **semconv.LOG_LINES,
}


Say = Callable[..., Any]
MAX_LATE: Final = 1_000
"""Lines of signal handlers that may wait for the interrupted line."""


class EventLogger(Protocol):
    """Logger interface; structlog's bound loggers satisfy it."""

    def info(self, event: str, **fields: Any) -> Any:
        """Log at level info."""

    def error(self, event: str, **fields: Any) -> Any:
        """Log at level error."""


class Logs:
    """Writes events as log lines."""

    def __init__(self, logger: EventLogger | None) -> None:
        self._given = logger
        self._structlog: EventLogger = structlog.get_logger(LOGGER_NAME)
        self._standard = logging.getLogger(LOGGER_NAME)
        self._saying: set[int] = set()
        self._late: deque[tuple[Say, str, dict[str, Any]]] = deque(maxlen=MAX_LATE)

    def write(self, event: Mapping[str, Any]) -> None:
        """Log an event, failures at error level; build no line without a listener."""
        kind, get = event["event_type"], event.get
        line = LINES.get(kind)
        name, level, keys = line if line is not None else (kind.replace(".", "_"), "info", _WHO)
        if get("status") == semconv.FAILED:
            level = "error"
        logger = self._given
        if logger is None and not _asked_for and structlog.is_configured():
            logger = self._structlog
        if logger is not None:
            self._say(getattr(logger, level, logger.info), name, {key: get(key) for key in keys})
        elif self._standard.isEnabledFor(number := _LEVELS[level]):
            standard = self._standard
            if _files and standard.handlers == _asked_for and not standard.filters:
                for file in _files:
                    file.write_later(_line, (name, level, keys, event), at_once=level == "error")
            else:
                self._write_standard(number, _line(name, level, keys, event).decode())

    def _say(self, say: Say, name: str, fields: dict[str, Any]) -> None:
        """Log one line at a time per thread.

        structlog prints under a lock, so a signal handler that logs inside it would deadlock. Its lines
        are written after the interrupted one.
        """
        me = get_ident()
        if me in self._saying:
            self._late.append((say, name, fields))
            return
        try:
            self._saying.add(me)
            say(name, **fields)
            while self._late:
                later, name, fields = self._late.popleft()
                later(name, **fields)
        finally:
            self._saying.discard(me)

    def _write_standard(self, number: int, text: str) -> None:
        standard = self._standard
        # Not `Logger.log`: it would walk the stack for a caller that is always this line.
        record = standard.makeRecord(LOGGER_NAME, number, __file__, 0, text, (), None, "write")
        standard.handle(record)


def _line(name: str, level: str, keys: tuple[str, ...], event: Mapping[str, Any]) -> bytes:
    get = event.get
    shown: dict[str, Any] = {
        "event": name,
        **dict(zip(keys, map(get, keys), strict=True)),
        # The time of the event, not of the log line.
        "timestamp": get("timestamp"),
        "level": level,
        "logger": LOGGER_NAME,
    }
    return values.encode(shown)


_asked_for: list[logging.Handler] = []
"""Handlers set by `configure_logs`."""
_files: list[EventFile] = []
"""The same handlers if all are files: lines are then written without a LogRecord."""


def configure_logs(
    *,
    path: str | Path | None = None,
    max_bytes: int = 10 * 1024 * 1024,
    backups: int = 5,
    console: bool = False,
    level: str = "info",
) -> bool:
    """Write event lines as JSON to a file, to standard error, or both.

    A later call replaces an earlier one; without `path` and `console` it turns the lines off. It takes
    precedence over structlog's configuration, but not over a logger given to `configure`.

    Args:
        path: log file; its directory is created. `{pid}` is replaced by the process id.
        max_bytes: size at which the file is rotated to `<path>.1`; 0: never.
        backups: rotated files to keep.
        level: `debug`, `info`, or `error` for failures only.

    Returns:
        False if the file could not be opened; the reason is logged.

    Raises:
        ConfigurationError: the level is unknown.
    """
    if level not in _LEVELS:
        raise ConfigurationError(f"level is {level!r}; expected one of {', '.join(_LEVELS)}")
    handlers: list[logging.Handler] = []
    if console:
        handlers.append(logging.StreamHandler(sys.stderr))
    if path is not None:
        try:
            handlers.append(EventFile(path, max_bytes=max_bytes, backups=backups))
        except OSError as error:
            guard.log.warning("tracereel: no event log in %s: %s", path, error)
            return False
    logger = logging.getLogger(LOGGER_NAME)
    for old in _asked_for:
        logger.removeHandler(old)
        old.close()
    for new in handlers:
        logger.addHandler(new)
    _asked_for[:] = handlers
    _files[:] = [file for file in handlers if isinstance(file, EventFile) and not console]
    # Handlers of the root logger would print the lines a second time.
    logger.propagate = not handlers
    logger.setLevel(_LEVELS[level] if handlers else logging.NOTSET)
    return True
