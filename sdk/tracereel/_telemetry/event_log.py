"""One log line per event, with the keys of the contract.

Lines go to the logger given to `configure`, else where `configure_logs` says, else to the program's
own logging: structlog if it is configured, standard logging if it has handlers. The logger is named
after the module of the traced code. A program without logging gets JSON on standard error: all
lines if it has called `configure`, else failures.

Prompts are in lines for the program's own logging only if the setting `event_logs` is `content`.
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
"""Logger of events that belong to no traced function."""

AUTO: Final = "auto"
OFF: Final = "off"
CONTENT: Final = "content"

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
_WHO: Final = ("agent_name", "trace_id")
_PROMPTS: Final = frozenset({"input_summary"})
"""Fields with content of the program."""

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
_WITHOUT_PROMPTS: Final[dict[str, Line]] = {
    kind: (name, level, tuple(key for key in keys if key not in _PROMPTS))
    for kind, (name, level, keys) in LINES.items()
}


LogMethod = Callable[..., Any]
MAX_LATE: Final = 1_000
"""Lines of signal handlers that may wait for the interrupted line."""
MAX_LOGGERS: Final = 1_000
"""Modules with a logger of their own; generated modules may have any number of names."""


class EventLogger(Protocol):
    """Logger interface; structlog's bound loggers satisfy it."""

    def info(self, event: str, **fields: Any) -> Any:
        """Log at level info."""

    def error(self, event: str, **fields: Any) -> Any:
        """Log at level error."""


class Logs:
    """Writes events as log lines."""

    def __init__(self, logger: EventLogger | None, mode: str = AUTO) -> None:
        self._given = logger
        self._mode = mode
        self.prints = False
        """Whether `configure` was called, so that a program without logging gets all lines."""
        self._loggers: dict[str, tuple[EventLogger, logging.Logger]] = {}
        self._writing: set[int] = set()
        self._late: deque[tuple[LogMethod, str, dict[str, Any]]] = deque(maxlen=MAX_LATE)

    def write(self, event: Mapping[str, Any], module: str | None = None) -> None:
        """Log an event, failures at error level; build no line without a listener."""
        if self._mode == OFF:
            return
        structured, standard = self._named(module)
        logger = self._given
        if logger is None and not _handlers and structlog.is_configured():
            logger = structured
        ours = logger is None and (bool(_handlers) or not has_handlers(standard))
        with_prompts = self._mode == CONTENT or (self._mode == AUTO and ours)
        kind, get = event["event_type"], event.get
        line = (LINES if with_prompts else _WITHOUT_PROMPTS).get(kind)
        name, level, keys = line if line is not None else (kind.replace(".", "_"), "info", _WHO)
        if get("status") == semconv.FAILED:
            level = "error"
        number = _LEVELS[level]
        if logger is not None:
            self._write(getattr(logger, level, logger.info), name, {key: get(key) for key in keys})
            return
        given = (name, level, keys, event, standard.name)
        if _handlers:
            _write_to_handlers(number, standard.name, given)
        elif not ours:
            to = _not_disabled(standard) if number >= logging.ERROR else standard
            if to.isEnabledFor(number):
                to.handle(_record(standard.name, number, _line(*given)))
        elif number >= (logging.INFO if self.prints or self._mode != AUTO else logging.ERROR):
            self._write(write_to_stderr, _line(*given).decode(), {})

    def _named(self, module: str | None) -> tuple[EventLogger, logging.Logger]:
        """Return structlog's and the standard logger of a module."""
        name = module or LOGGER_NAME
        found = self._loggers.get(name)
        if found is None:
            if len(self._loggers) >= MAX_LOGGERS:
                name = LOGGER_NAME
            found = structlog.get_logger(name), logging.getLogger(name)
            self._loggers[name] = found
        return found

    def _write(self, method: LogMethod, name: str, fields: dict[str, Any]) -> None:
        """Log one line at a time per thread.

        structlog prints under a lock, so a signal handler that logs inside it would deadlock. Its lines
        are written after the interrupted one.
        """
        me = get_ident()
        if me in self._writing:
            self._late.append((method, name, fields))
            return
        try:
            self._writing.add(me)
            method(name, **fields)
            while self._late:
                later, name, fields = self._late.popleft()
                later(name, **fields)
        finally:
            self._writing.discard(me)


def has_handlers(logger: logging.Logger) -> bool:
    """Return whether records of a logger are shown; libraries add handlers that do nothing."""
    here: logging.Logger | None = logger
    while here is not None:
        for handler in here.handlers:
            if not isinstance(handler, logging.NullHandler):
                return True
        here = here.parent if here.propagate else None
    return False


def _not_disabled(logger: logging.Logger) -> logging.Logger:
    """Return a logger, or for one that `dictConfig` found and disabled the nearest parent that works."""
    while logger.disabled and logger.parent is not None:
        logger = logger.parent
    return logger


def write_to_stderr(line: str) -> None:
    """Write a line to standard error, if there is one and it is open."""
    if sys.stderr is not None:
        try:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        except (OSError, ValueError):  # `suppress` costs a microsecond
            pass


def _record(name: str, number: int, line: bytes) -> logging.LogRecord:
    # Not `Logger.log`: it would walk the stack for a caller that is always this module.
    return logging.LogRecord(name, number, __file__, 0, line.decode(), (), None, "write")


def _write_to_handlers(number: int, name: str, given: tuple[Any, ...]) -> None:
    if number < _handler_level[0]:
        return
    for handler in _handlers:
        if isinstance(handler, EventFile):
            handler.write_later(_line, given, at_once=number >= logging.ERROR)
        else:
            handler.handle(_record(name, number, _line(*given)))


def _line(
    name: str, level: str, keys: tuple[str, ...], event: Mapping[str, Any], logger: str
) -> bytes:
    get = event.get
    shown: dict[str, Any] = {
        "event": name,
        **dict(zip(keys, map(get, keys), strict=True)),
        # The time of the event, not of the log line.
        "timestamp": get("timestamp"),
        "level": level,
        "logger": logger,
    }
    return values.encode(shown)


_handlers: list[logging.Handler] = []
"""Handlers set by `configure_logs`."""
_handler_level: list[int] = [logging.INFO]


def configure_logs(
    *,
    path: str | Path | None = None,
    max_bytes: int = 10 * 1024 * 1024,
    backups: int = 5,
    console: bool = False,
    level: str = "info",
) -> bool:
    """Write event lines as JSON to a file, to standard error, or both.

    A later call replaces an earlier one; without `path` and `console` lines go to the program's logging
    again. It takes precedence over that, but not over a logger given to `configure`.

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
    old, _handlers[:] = list(_handlers), handlers
    _handler_level[0] = _LEVELS[level]
    for handler in old:
        handler.close()
    return True
