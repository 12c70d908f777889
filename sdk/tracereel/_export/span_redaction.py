"""Redaction of spans of other instrumentations before export."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, Status

from tracereel._redact.event_redaction import Privacy, class_name
from tracereel._redact.secret_patterns import is_sensitive_key, mark

CONTENT: Final = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "input.value",
    "output.value",
    "llm.input_messages",
    "llm.output_messages",
    "llm.prompts",
    "llm.completions",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "exception.message",
    "exception.stacktrace",
)
"""Prefixes of attributes that hold prompts, responses or other content."""
_UNNAMED: Final = "unknown_service"


class SpanCleaner:
    """Redacting copier of spans; used by one thread at a time."""

    def __init__(self, privacy: Privacy, service: str | None) -> None:
        self._privacy = privacy
        self._service = service
        self._resources: tuple[Resource, Resource] | None = None

    def clean(self, span: ReadableSpan) -> ReadableSpan:
        """Return a redacted copy of a span."""
        return ReadableSpan(
            name=self._privacy.text(span.name),
            context=span.context,
            parent=span.parent,
            resource=self._named(span.resource),
            attributes=self._attributes(span),
            events=_list(
                (
                    Event(event.name, self._attributes(event), event.timestamp)
                    for event in span.events
                ),
                span.dropped_events,
            ),
            links=_list(
                (Link(link.context, self._attributes(link)) for link in span.links),
                span.dropped_links,
            ),
            kind=span.kind,
            status=self._status(span.status),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _named(self, resource: Resource) -> Resource:
        """Return the resource with the configured service name if it has none."""
        if self._service is None:
            return resource
        if self._resources is None or self._resources[0] is not resource:
            named = resource
            if str(resource.attributes.get(SERVICE_NAME, "")).startswith(_UNNAMED):
                named = resource.merge(Resource({SERVICE_NAME: self._service}))
            self._resources = resource, named
        return self._resources[1]

    def _status(self, status: Status) -> Status:
        if not status.description:
            return status
        shown = status.description
        if not self._privacy.captures:
            shown = class_name(shown)
        return Status(status.status_code, self._privacy.text(shown) or None)

    def _attributes(self, holder: ReadableSpan | Event | Link) -> Mapping[str, Any]:
        cleaned = {
            key: self._value(value, hide=self._hides(key))
            for key, value in (holder.attributes or {}).items()
            if self._privacy.captures or not key.startswith(CONTENT)
        }
        if not holder.dropped_attributes:
            return cleaned
        kept = BoundedAttributes(attributes=cleaned)
        kept.dropped = holder.dropped_attributes
        return kept

    def _hides(self, key: str) -> bool:
        return self._privacy.hides_by_name and (
            is_sensitive_key(key) or is_sensitive_key(key.rpartition(".")[2])
        )

    def _value(self, value: Any, *, hide: bool) -> Any:
        if isinstance(value, str):
            return mark("field") if hide and value else self._privacy.text(value)
        if isinstance(value, int | float | bytes):
            return value
        if isinstance(value, Mapping):
            return {
                key: self._value(each, hide=hide or self._hides(str(key)))
                for key, each in value.items()
            }
        if isinstance(value, Sequence):
            return [self._value(each, hide=hide) for each in value]
        return value


def _list(items: Iterable[Any], dropped: int) -> Sequence[Any]:
    if not dropped:
        return list(items)
    kept = BoundedList.from_seq(None, items)
    kept.dropped = dropped
    return kept
