"""Thread that calls a function periodically until stopped; failures do not end it."""

import threading
from collections.abc import Callable

import structlog

from tracereel_collector.errors import CollectorError
from tracereel_collector.telemetry import name_thread

log = structlog.get_logger(__name__)


class PeriodicTask:
    """Calls a function every `every_seconds`, the first time after that interval."""

    def __init__(
        self,
        name: str,
        look: Callable[[], object],
        *,
        every_seconds: float,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._look = look
        self._every = every_seconds
        self._on_failure = on_failure
        self.stopping = threading.Event()
        """Set when a long call should return early."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, *, timeout: float) -> None:
        """Stop and wait for the current call; safe without start and safe to call twice."""
        self.stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        name_thread(self._name)
        while not self.stopping.wait(self._every):
            try:
                self._look()
            except CollectorError as error:
                log.warning("round_postponed", of=self._name, reason=error.message)
                self._on_failure()
            except Exception as error:
                log.exception("round_failed", of=self._name, reason=str(error))
                self._on_failure()
