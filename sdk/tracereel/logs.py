"""One structlog line per event, with the keys of the contract.

A program that has configured structlog (or gives a logger) gets the lines its way. Without that
they go to the standard logger `tracereel.events` as JSON, so that nothing of ours is printed
unasked: the standard library shows failures and hides the rest until a level is set.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

import structlog

from tracereel import semconv

LOGGER_NAME: Final = "tracereel.events"
_LEVELS: Final = {"info": logging.INFO, "error": logging.ERROR}


class EventLogger(Protocol):
    """What is needed of a logger: structlog's bound loggers have it."""

    def info(self, event: str, **fields: Any) -> Any:
        """Log at level info."""

    def error(self, event: str, **fields: Any) -> Any:
        """Log at level error."""


class Logs:
    """Writes events as log lines to the given logger, else structlog's, else the standard one."""

    def __init__(self, logger: EventLogger | None) -> None:
        self._given = logger
        self._structlog: EventLogger = structlog.get_logger(LOGGER_NAME)
        self._standard = logging.getLogger(LOGGER_NAME)
        self._fallback: EventLogger = structlog.wrap_logger(
            self._standard,
            processors=[
                structlog.stdlib.add_logger_name,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=True,
        )

    def write(self, event: Mapping[str, Any]) -> None:
        """Log an event, if its type has a line; failures at error level."""
        line = semconv.LOG_LINES.get(event["event_type"])
        if line is None:
            return
        name, level, keys = line
        if event.get("status") == semconv.FAILED:
            level = "error"
        logger = self._given
        if logger is None:
            if structlog.is_configured():
                logger = self._structlog
            elif self._standard.isEnabledFor(_LEVELS[level]):
                logger = self._fallback
            else:
                return
        fields = {key: event[key] for key in keys}
        if level == "error":
            logger.error(name, **fields)
        else:
            logger.info(name, **fields)
