"""One log line per event, with the keys of the contract, and the current trace on everybody's lines.

A program that has configured structlog (or gives a logger) gets the lines its way. Without that
they go to the standard logger `tracereel.events` as JSON. Nothing of ours is printed unasked: a
program that has set up logging sees failures, and the rest once it sets the level; any other one
sees nothing until `configure_logs` says where the lines go.
"""

import logging
import sys
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final, Protocol

import structlog
from opentelemetry import trace

from tracereel import _context, _guard, _remote, _values, semconv
from tracereel._log_file import EventFile
from tracereel.errors import ConfigurationError

LOGGER_NAME: Final = "tracereel.events"
CONTEXT_KEYS: Final = ("trace_id", "span_id", "request_id", "agent_name")
"""What the bridges put on every line."""

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
_WHO: Final = ("agent_name", "trace_id")

Line = tuple[str, str, tuple[str, ...]]
"""Name, level, and the fields that are shown."""

LINES: Final[dict[str, Line]] = {
    # Parts of streams: too many for a level that people leave on.
    "agent.message.normalized": (
        "agent_message_normalized",
        "debug",
        (*_WHO, "message_type", "original_index"),
    ),
    **semconv.LOG_LINES,
}


Say = Callable[..., Any]
MAX_LATE: Final = 1_000
"""Lines of signal handlers that wait for the line they interrupted."""


class EventLogger(Protocol):
    """What is needed of a logger: structlog's bound loggers have it."""

    def info(self, event: str, **fields: Any) -> Any:
        """Log at level info."""

    def error(self, event: str, **fields: Any) -> Any:
        """Log at level error."""


class Logs:
    """Writes events as log lines: to the given logger, else structlog's, else the standard one."""

    def __init__(self, logger: EventLogger | None) -> None:
        self._given = logger
        self._structlog: EventLogger = structlog.get_logger(LOGGER_NAME)
        self._standard = logging.getLogger(LOGGER_NAME)
        self._saying: set[int] = set()
        self._late: deque[tuple[Say, str, dict[str, Any]]] = deque(maxlen=MAX_LATE)

    def listens(self) -> bool:
        """Whether somebody takes the lines of what went well."""
        return (
            self._given is not None
            or (not _asked_for and structlog.is_configured())
            or self._standard.isEnabledFor(logging.INFO)
        )

    def write(self, event: Mapping[str, Any]) -> None:
        """Log an event; failures at error level. Nothing is built when nobody listens."""
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
        """Log one line after the other in a thread.

        structlog's own loggers print under a lock: a signal handler that came in there, and has something
        to log, would wait for itself. Its lines go after the one that it interrupted.
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
        # Not `Logger.log`: it would walk the stack for a caller, and that is always this line.
        record = standard.makeRecord(LOGGER_NAME, number, __file__, 0, text, (), None, "write")
        standard.handle(record)


def _line(name: str, level: str, keys: tuple[str, ...], event: Mapping[str, Any]) -> bytes:
    get = event.get
    shown: dict[str, Any] = {
        "event": name,
        **dict(zip(keys, map(get, keys), strict=True)),
        # The event's own moment: the line of an event says the time that the event says.
        "timestamp": get("timestamp"),
        "level": level,
        "logger": LOGGER_NAME,
    }
    return _values.encode(shown)


_asked_for: list[logging.Handler] = []
"""The handlers of `configure_logs`."""
_files: list[EventFile] = []
"""The same, when they are files and nothing else: then no record is needed on the way there."""


def configure_logs(
    *,
    path: str | Path | None = None,
    max_bytes: int = 10 * 1024 * 1024,
    backups: int = 5,
    console: bool = False,
    level: str = "info",
) -> bool:
    """Send the lines of events to a file, to the console (standard error), or both, as JSON.

    Called again, it replaces what it had set up; without `path` and `console` it ends it. It wins
    over structlog's configuration, not over a logger given to `configure`.

    Args:
        path: the file; made with its directory. `{pid}` in it becomes the number of the process.
        max_bytes: above this the file is renamed to `<path>.1` and a new one begun; 0 means never.
        backups: how many renamed files are kept.
        level: `debug`, `info`, or `error` for failures only.

    Returns:
        Whether it has been done; a file that cannot be opened is told in the log, not raised.

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
            _guard.log.warning("tracereel: no event log in %s: %s", path, error)
            return False
    logger = logging.getLogger(LOGGER_NAME)
    for old in _asked_for:
        logger.removeHandler(old)
        old.close()
    for new in handlers:
        logger.addHandler(new)
    _asked_for[:] = handlers
    _files[:] = [file for file in handlers if isinstance(file, EventFile) and not console]
    # Ours have the lines now: handlers of the root logger would print them a second time.
    logger.propagate = not handlers
    logger.setLevel(_LEVELS[level] if handlers else logging.NOTSET)
    return True


def trace_context() -> dict[str, str]:
    """The ids of the current execution, else of the current span or caller; what is not known is absent."""
    found: dict[str, str] = {}
    execution = _context.current_execution()
    span = trace.get_current_span().get_span_context()
    if execution is not None:
        found["trace_id"], found["span_id"] = execution.trace_id, execution.span_id
        found["request_id"] = execution.request_id
        inner = execution
        while inner.kind != "agent" and inner.parent is not None:
            inner = inner.parent
        if inner.kind == "agent":
            found["agent_name"] = inner.name
        return found
    if span.is_valid:
        found["trace_id"], found["span_id"] = f"{span.trace_id:032x}", f"{span.span_id:016x}"
    if (remote := _remote.remote_identity()) is not None:
        if remote.trace_id is not None:
            found["trace_id"] = remote.trace_id
        if remote.request_id is not None:
            found["request_id"] = remote.request_id
    return found


def add_trace_context(
    _logger: Any, _method: str, event_dict: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A structlog processor: puts the ids of the current execution on a line that has none."""
    with _guard.Guard("logs"):
        for name, value in trace_context().items():
            event_dict.setdefault(name, value)
    return event_dict


class TraceContextFilter(logging.Filter):
    """For handlers of the standard library: puts the same ids on every record, empty where unknown.

    Example:
        handler.addFilter(TraceContextFilter())
        handler.setFormatter(logging.Formatter("%(trace_id)s %(agent_name)s %(message)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids; every record passes."""
        found: dict[str, str] = {}
        with _guard.Guard("logs"):
            found = trace_context()
        for name in CONTEXT_KEYS:
            if not hasattr(record, name):
                setattr(record, name, found.get(name, ""))
        return True
