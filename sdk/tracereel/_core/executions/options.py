"""Options of decorators, and the span name and attributes made from them."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from tracereel import semconv
from tracereel._core import execution_fields
from tracereel._core.executions.arguments import Ids
from tracereel._core.listeners import Listener
from tracereel._redact import values
from tracereel._redact.event_redaction import Privacy
from tracereel._telemetry import spans

_FIELDS: Final = {"version": "agent_version", "provider": "llm_provider"}
"""Options whose event field has another name."""
_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "temperature": values.real,
    "max_tokens": values.count,
    "top_k": values.count,
    "enable_thinking": execution_fields.flag,
    "thinking_budget": values.count,
    "timeout_seconds": values.real,
}
"""Numeric options → function that returns a valid value or None; others are labels."""


@dataclass(frozen=True, slots=True)
class SpanView:
    """Span name and initial attributes under one privacy configuration."""

    privacy: Privacy
    span_name: str
    attributes: dict[str, Any]


class CallOptions:
    """Options of a decorator; created once and shared by all calls."""

    verb: ClassVar[str]
    """Operation in the span name, unless an option sets another one."""
    named: ClassVar[str]
    """Event field of the name."""

    __slots__ = (
        "_view",
        "about",
        "effect",
        "ids",
        "inputs",
        "module",
        "name",
        "on_event",
        "timeout",
    )

    def __init__(
        self,
        name: str,
        *,
        ids: Ids,
        inputs: Any = None,
        effect: str | None = None,
        on_event: Listener | None = None,
        **options: Any,
    ) -> None:
        self.name = name
        self.on_event = on_event
        self.timeout: float | None = options.get("timeout_seconds")
        self.ids = ids
        self.inputs = inputs
        self.effect = effect
        self.about: dict[str, Any] = {self.named: name}
        """Event fields of the name and the options."""
        for option, value in options.items():
            check: Callable[[Any], Any] = _CHECKS.get(option, values.label)
            self.about[_FIELDS.get(option, option)] = check(value)
        self.module: str | None = None
        """Module of the traced code, after which its log lines are named."""
        self._view: SpanView | None = None

    def of(self, function: Callable[..., Any]) -> Self:
        """Return the options for one decorated function."""
        spec = copy.copy(self)
        spec.module = getattr(getattr(function, "func", function), "__module__", self.module)
        return spec

    def view(self, privacy: Privacy) -> SpanView:
        """Return the redacted name and initial attributes of the spans."""
        view = self._view
        if view is None or view.privacy is not privacy:
            shown = privacy.shown({**self.about, "operation": self.operation})
            name = f"{shown['operation']} {shown[self.named] or ''}".rstrip()
            if self.verb == semconv.STEP:
                del shown["operation"]  # not one of OpenTelemetry's
            view = self._view = SpanView(privacy, name, spans.attributes_of(shown))
        return view

    @property
    def operation(self) -> str:
        """Name of the operation."""
        return self.about.get("operation") or self.verb
