"""Spans that redact attributes, events and errors when they are written.

Only the SDK's own code writes through them. The program's current span is the unwrapped one.
"""

import traceback
from collections.abc import Callable
from typing import Any

from opentelemetry.trace import Span, SpanContext, Status, StatusCode, TracerProvider

from tracereel import semconv
from tracereel._redact.event_redaction import ERRORS, Privacy, class_name, error_name
from tracereel._telemetry.spans import MarkedSpan, Spans

_ERRORS = frozenset(
    shown[field] for _, shown in semconv.SPAN_EVENTS.values() for field in ERRORS if field in shown
)
"""Attributes of spans and span events that hold the text of an error."""


class PrivateSpans(Spans):
    """Factory of spans that redact their attributes, events and errors."""

    def __init__(
        self,
        provider: TracerProvider | None,
        privacy: Privacy,
        on_provider: Callable[[TracerProvider], None] = lambda _provider: None,
        on_marked: Callable[[MarkedSpan], None] = lambda _span: None,
        *,
        says_lost: bool = True,
    ) -> None:
        super().__init__(provider, on_provider, on_marked, says_lost=says_lost)
        self.privacy = privacy

    def _handed_out(self, span: Span) -> Span:
        """Wrap a span; its name and first attributes are already redacted by the caller."""
        return PrivateSpan(span, self.privacy)


class PrivateSpan(Span):
    """Span wrapper that redacts attributes, events and errors."""

    def __init__(self, span: Span, privacy: Privacy) -> None:
        self.behind = span
        self._privacy = privacy

    def set_attribute(self, key: str, value: Any) -> None:
        self.behind.set_attributes(self._shown({key: value}))

    def set_attributes(self, attributes: Any) -> None:
        self.behind.set_attributes(self._shown(dict(attributes)))

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        self.behind.add_event(name, self._shown(dict(attributes or {})), timestamp)

    def _shown(self, attributes: dict[str, Any]) -> dict[str, Any]:
        if not self._privacy.captures:
            for key in _ERRORS & attributes.keys():
                attributes[key] = error_name(str(attributes[key]))
        return self._privacy.values(attributes)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        code = status if isinstance(status, StatusCode) else status.status_code
        if isinstance(status, Status):
            description = status.description
        if description is not None:
            description = self._described(description) or None
        self.behind.set_status(code, description)

    def _described(self, description: str) -> str:
        if not self._privacy.captures:
            return self._privacy.text(class_name(description))
        kind, colon, message = description.partition(": ")
        fields = {"error_message": message}
        self._privacy.clean(fields)
        return f"{self._privacy.text(kind)}{colon}{fields['error_message']}".removesuffix(": ")

    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002, RUF100 - the signature is OpenTelemetry's
    ) -> None:
        """Record an exception like OpenTelemetry does, redacted."""
        kind = type(exception)
        module = kind.__module__
        name = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
        shown: dict[str, Any] = {"exception.type": name}
        if self._privacy.captures:
            lines = traceback.format_exception(kind, exception, exception.__traceback__)
            cleaned = {"error_message": str(exception), "stack_trace": "".join(lines)}
            # Apply field actions (drop, hash) of the matching event fields here too.
            self._privacy.clean(cleaned)
            shown["exception.message"] = cleaned["error_message"]
            shown["exception.stacktrace"] = cleaned["stack_trace"]
        shown["exception.escaped"] = str(escaped)
        shown.update(self._privacy.values(dict(attributes or {})))
        self.behind.add_event("exception", shown, timestamp)

    def is_recording(self) -> bool:
        return self.behind.is_recording()

    def get_span_context(self) -> SpanContext:
        return self.behind.get_span_context()

    def update_name(self, name: str) -> None:
        self.behind.update_name(self._privacy.text(name))

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        self.behind.add_link(context, self._shown(dict(attributes or {})))

    def end(self, end_time: int | None = None) -> None:
        self.behind.end(end_time)
