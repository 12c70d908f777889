"""Validation of OTLP bodies: decoded, counted, and kept unchanged if possible."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf.message import DecodeError

from tracereel_collector.auth.claims import RESOURCE_ATTRIBUTES, refusal
from tracereel_collector.ingest.coding_agents import (
    may_hold_coding_agents,
    spans_of_coding_agents,
)
from tracereel_collector.ingest.objects import count_json, count_protobuf, too_many_objects
from tracereel_collector.ingest.otlp_events import event_line, event_type_of, may_hold_events
from tracereel_collector.ingest.otlp_json import request_from_json
from tracereel_collector.ingest.otlp_mend import (
    BAD_TEXT,
    BAD_TIME,
    DEEP_VALUE,
    LONG_VALUE,
    MANY_ATTRIBUTES,
    MAX_UNIX_NANO,
    NO_EVENT,
    ZERO_PARENT,
    OtlpLimits,
    clear_zero_parents,
    cut_long_values,
    drop_surplus,
    flatten_deep_values,
    keep_only,
    keep_original_times,
    read_with_bad_text,
    refuse_spans,
)
from tracereel_collector.ingest.otlp_schema import LOGS, METRICS, TRACES, Signal
from tracereel_collector.ingest.redaction import Redactor

_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
_ZERO_PARENT_FIELD = b"\x22\x08" + _NO_SPAN
_POINTS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
JSON_BYTES, MESSAGE_BYTES = 300, 400
"""Memory per JSON value with its message, and per message decoded with two schemas."""
_SERVICE = "service.name"
REFUSED_EVENT = "tracereel.event_refused"
"""Attribute with the reason why a log record with an event name is not an event."""

Refusal = Callable[[bytes, str], str | None]
"""Returns why a line is not an event of a tenant; None if it is one."""
FOREIGN = "another tenant"
REDACTED = "redacted"
_SAID = {
    BAD_TEXT: "{} strings were not UTF-8; U+FFFD stands for the bytes that were not",
    BAD_TIME: f"{{}} times are after {MAX_UNIX_NANO} ns; attributes keep what was sent",
    MANY_ATTRIBUTES: "{} attributes were left out, the last of records that had too many",
    LONG_VALUE: "{} texts or values were cut because they were too long",
    NO_EVENT: "{} log records name an event but are none, and were kept as log records",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequest:
    """Accepted part of a request, and counts of refused and changed records."""

    data: bytes
    records: int
    events: list[bytes] = field(default_factory=list)
    """Log records that are tracereel events, as JSON lines."""
    spans: bytes = b""
    """OTLP request with the spans that log records of coding agents describe."""
    span_count: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Refused records by reason."""
    mended: Counter[str] = field(default_factory=Counter)
    """Changes made so that records can be stored, by type."""
    hint: str = ""

    @property
    def kept(self) -> int:
        """Accepted records of all kinds."""
        return self.records + len(self.events)

    def message(self) -> str:
        """Return a message for the sender; empty if nothing was refused or changed."""
        found = [f"{count} refused: {reason}" for reason, count in self.refused.items()]
        found += [
            text.format(self.mended[what]) for what, text in _SAID.items() if self.mended[what]
        ]
        return "; ".join(found + [self.hint] * bool(self.hint))


class OtlpCheck:
    """Checks requests of all signals; stateless after construction."""

    def __init__(
        self,
        *,
        why_no_event: Refusal,
        redactor: Redactor | None = None,
        limits: OtlpLimits | None = None,
    ) -> None:
        self._why_no_event = why_no_event
        self._limits = limits or OtlpLimits()
        self._redactor = redactor

    def protobuf(self, signal: Signal, data: bytes, *, tenant: str) -> CheckedRequest:
        """Check a request in protobuf."""
        most = self._limits.objects
        if count_protobuf(data, signal.request.DESCRIPTOR, most) > most:
            raise too_many_objects(most)
        try:
            request = signal.bounded.FromString(data)
            records, odd = _look(signal, request, self._limits.attributes)
            odd = odd or len(data) > self._limits.value_bytes
            odd = odd or (
                may_hold_events(data) or may_hold_coding_agents(data)
                if signal is LOGS
                else _ZERO_PARENT_FIELD in data
            )
            odd = odd or self._redactor is not None or _names_another(signal, request, tenant)
            if not odd and request.IsInitialized():
                return CheckedRequest(data=data, records=records)
            # The bounded classes do not decode deep values.
            official = signal.request.FromString(data)
        except DecodeError:
            official, mended = read_with_bad_text(signal, data)
            return self._mended(signal, official, Counter({BAD_TEXT: mended}), tenant)
        checked = self._mended(signal, official, Counter(), tenant, bounded=request)
        changed = checked.mended or checked.refused or checked.events
        return checked if changed else replace(checked, data=data)

    def weight(self, signal: Signal, data: bytes, *, is_json: bool) -> int:
        """Estimate the memory of a check in bytes."""
        most = self._limits.objects
        if is_json:
            return 2 * len(data) + JSON_BYTES * min(most, count_json(data, most))
        objects = count_protobuf(data, signal.request.DESCRIPTOR, most)
        return 2 * len(data) + MESSAGE_BYTES * min(most, objects)

    def json(self, signal: Signal, data: bytes, *, tenant: str) -> CheckedRequest:
        """Check a request in OTLP JSON."""
        request, mended = request_from_json(signal, data, max_objects=self._limits.objects)
        return self._mended(signal, request, mended, tenant)

    def _mended(
        self,
        signal: Signal,
        request: Any,
        mended: Counter[str],
        tenant: str,
        *,
        bounded: Any = None,
    ) -> CheckedRequest:
        """Apply all necessary changes to a request."""
        refused: Counter[str] = Counter()
        events: list[bytes] = []
        hint = ""
        if _names_another(signal, request, tenant):
            refused[FOREIGN], hint = _remove_foreign(signal, request, tenant)
            bounded = None
        if signal is LOGS:
            # Before values are flattened to text: event fields keep their structure.
            events, reasons = self._take_events(request, tenant)
            mended[NO_EVENT] += len(reasons)
            hint = hint or (reasons[0] if reasons else "")
        mended[MANY_ATTRIBUTES] += drop_surplus(request, self._limits.attributes)
        mended[LONG_VALUE] += cut_long_values(request, self._limits.value_bytes)
        same_records = bounded if not events else None
        mended[DEEP_VALUE] += flatten_deep_values(request, same_records)
        if signal is TRACES:
            refused += refuse_spans(request)
            mended[BAD_TIME] += keep_original_times(request)
            mended[ZERO_PARENT] += clear_zero_parents(request)
        if self._redactor is not None:
            mended[REDACTED] += self._redactor.otlp(request)
        described = spans_of_coding_agents(request) if signal is LOGS else None
        return CheckedRequest(
            data=request.SerializeToString(),
            records=_look(signal, request, 0)[0],
            events=events,
            spans=b"" if described is None else described.SerializeToString(deterministic=True),
            span_count=0 if described is None else _look(TRACES, described, 0)[0],
            refused=refused,
            mended=+mended,
            hint=hint,
        )

    def _take_events(self, request: Any, tenant: str) -> tuple[list[bytes], list[str]]:
        """Move events out of a logs request; return them and the reasons for the others."""
        lines: list[bytes] = []
        reasons: list[str] = []
        for resource in request.resource_logs:
            names = (
                e.value.string_value for e in resource.resource.attributes if e.key == _SERVICE
            )
            service = next(names, "")
            for scope in resource.scope_logs:
                kept = []
                for record in scope.log_records:
                    event_type = event_type_of(record)
                    if event_type is not None:
                        line = event_line(record, event_type, service=service)
                        reason = self._why_no_event(line, tenant)
                        if reason is None:
                            lines.append(line)
                            continue
                        # Keep it as a log record, with the reason as an attribute.
                        record.attributes.add(key=REFUSED_EVENT).value.string_value = reason
                        reasons.append(reason)
                    kept.append(record)
                keep_only(scope.log_records, kept)
        return lines, reasons


def _look(signal: Signal, request: Any, most: int) -> tuple[int, bool]:
    """Return the number of records and whether any part needs the full check."""
    count = 0
    odd = False
    look = _LOOKS[signal.name]
    for resource in signal.resources(request):
        odd = odd or len(resource.resource.attributes) > most
        for scope in signal.scopes(resource):
            odd = odd or len(scope.scope.attributes) > most
            records, are_odd = look(getattr(scope, signal.records), most)
            count += records
            odd = odd or are_odd
    return count, odd


def _look_at_spans(spans: Any, most: int) -> tuple[int, bool]:
    odd = False
    for span in spans:
        trace_id, span_id = span.trace_id, span.span_id
        if (
            len(trace_id) != 16
            or len(span_id) != 8
            or trace_id == _NO_TRACE
            or span_id == _NO_SPAN
            or span.start_time_unix_nano > MAX_UNIX_NANO
            or span.end_time_unix_nano > MAX_UNIX_NANO
            or len(span.attributes) > most
        ):
            odd = True
        for event in span.events:
            if event.time_unix_nano > MAX_UNIX_NANO or len(event.attributes) > most:
                odd = True
        for link in span.links:
            if len(link.attributes) > most:
                odd = True
    return len(spans), odd


def _look_at_logs(records: Any, most: int) -> tuple[int, bool]:
    return len(records), any(len(record.attributes) > most for record in records)


def _look_at_metrics(metrics: Any, most: int) -> tuple[int, bool]:
    count = 0
    odd = False
    for metric in metrics:
        data = metric.WhichOneof("data")
        if data in _POINTS:
            points = getattr(metric, data).data_points
            count += len(points)
            odd = odd or any(len(point.attributes) > most for point in points)
    return count, odd


_LOOKS: dict[str, Callable[[Any, int], tuple[int, bool]]] = {
    TRACES.name: _look_at_spans,
    LOGS.name: _look_at_logs,
    METRICS.name: _look_at_metrics,
}


def _foreign_claim(resource: Any, tenant: str) -> str | None:
    """Return why a resource is refused; None if it names no other tenant."""
    for pair in resource.attributes:
        if pair.key in RESOURCE_ATTRIBUTES:
            kind = pair.value.WhichOneof("value")
            claimed = getattr(pair.value, kind) if kind else ""
            if claimed not in ("", tenant):
                return refusal(f"resource attribute {pair.key}", claimed, tenant)
    return None


def _names_another(signal: Signal, request: Any, tenant: str) -> bool:
    resources = signal.resources(request)
    return any(_foreign_claim(each.resource, tenant) is not None for each in resources)


def _remove_foreign(signal: Signal, request: Any, tenant: str) -> tuple[int, str]:
    """Remove resources that name another tenant; return their records and the first reason."""
    came, reason = _look(signal, request, 0)[0], ""
    resources = signal.resources(request)
    for index in range(len(resources) - 1, -1, -1):
        why = _foreign_claim(resources[index].resource, tenant)
        if why is not None:
            reason = why
            del resources[index]
    return came - _look(signal, request, 0)[0], reason
