"""Way of spans to their exporter, which is loaded and made when the first one needs it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tracereel._core.run_state import lock
from tracereel._redact.event_redaction import Privacy
from tracereel._runtime import guard
from tracereel._telemetry.spans import MarkedSpan
from tracereel.config import Config

if TYPE_CHECKING:
    from tracereel._export.span_exporter import OtherSpans, SpanCounts

_EXPORTER: Final = "tracereel._export.span_exporter"
"""Imported on first use, because it needs OpenTelemetry's SDK, which is slow to import."""


class SpanOutlet:
    """Exporter of one recorder for spans of the program, if there is one yet."""

    def __init__(self, config: Config, privacy: Privacy, counts: "SpanCounts") -> None:
        self.out: OtherSpans | None = None
        self._config = config
        self._given = config, privacy, counts

    def tap(self, provider: object) -> None:
        """Export the spans that end in a tracer provider."""
        if self._config.other_spans and hasattr(provider, "add_span_processor"):
            with guard.Guard("other_spans"):
                exporter = import_module(_EXPORTER)
                exporter.attach(provider, self._opened(exporter))

    def send(self, span: MarkedSpan) -> None:
        """Export a span of the SDK with the events that the program added."""
        if self._config.other_spans:
            with guard.Guard("other_spans"):
                exporter = import_module(_EXPORTER)
                self._opened(exporter).offer(exporter.own_span(**span._asdict()))

    def _opened(self, exporter: Any) -> "OtherSpans":
        with lock:
            if self.out is None:
                self.out = exporter.OtherSpans(*self._given)
            return self.out


def set_global_provider(service: str | None) -> None:
    """Set a global tracer provider unless there is one."""
    import_module(_EXPORTER).set_global_provider(service)
