"""Status descriptions and links of spans hold no content and no secrets."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import SpanContext, Status, StatusCode

from tracereel._export.span_redaction import SpanCleaner
from tracereel._redact.event_redaction import Privacy
from tracereel._telemetry.redacted_spans import PrivateSpan
from tracereel.redaction import Redaction

DESCRIPTIONS = [
    ("ValueError: penicillin", "ValueError"),
    ("ValueError:penicillin", "ValueError"),
    ("billing.errors.Overloaded: penicillin", "billing.errors.Overloaded"),
    ("ValueError: ", "ValueError"),
    ("TimeoutError", "TimeoutError"),
    ("patient is allergic to penicillin", None),
    ("penicillin", None),
    ("allergic to penicillin: stop", None),
    ("penicillin. : stop", None),
    ("1penicillin: stop", None),
    (": penicillin", None),
    ("sk_live_abcdefghijkl1234567890: refused", "[redacted:api_key]"),
]


def _span(privacy: Privacy) -> tuple[PrivateSpan, ReadableSpan]:
    behind = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("work")
    assert isinstance(behind, ReadableSpan)
    return PrivateSpan(behind, privacy), behind


@pytest.mark.parametrize(("given", "shown"), DESCRIPTIONS)
def test_without_content_only_the_class_name_of_a_status_is_set(
    given: str, shown: str | None
) -> None:
    for as_object in (True, False):
        span, behind = _span(Privacy(Redaction(), capture_content=False))
        if as_object:
            span.set_status(Status(StatusCode.ERROR, given))
        else:
            span.set_status(StatusCode.ERROR, given)
        assert behind.status.status_code is StatusCode.ERROR
        assert behind.status.description == shown


@pytest.mark.parametrize(("given", "shown"), DESCRIPTIONS)
def test_without_content_only_the_class_name_of_a_status_is_exported(
    given: str, shown: str | None
) -> None:
    cleaner = SpanCleaner(Privacy(Redaction(), capture_content=False), None)
    cleaned = cleaner.clean(ReadableSpan("work", status=Status(StatusCode.ERROR, given)))
    assert cleaned.status.status_code is StatusCode.ERROR
    assert cleaned.status.description == shown


def test_with_content_a_status_is_redacted() -> None:
    privacy = Privacy(Redaction(), capture_content=True)
    span, behind = _span(privacy)
    span.set_status(StatusCode.ERROR, "ValueError: ana@example.com is taken")
    cleaned = SpanCleaner(privacy, None).clean(behind)
    expected = "ValueError: [redacted:email] is taken"
    assert behind.status.description == cleaned.status.description == expected


def test_attributes_of_a_link_are_redacted() -> None:
    span, behind = _span(Privacy(Redaction(), capture_content=True))
    linked = SpanContext(1, 2, is_remote=True)
    span.add_link(linked, {"to": "ana@example.com", "count": 3})
    span.add_link(linked)
    assert [link.context for link in behind.links] == [linked, linked]
    assert [dict(link.attributes or {}) for link in behind.links] == [
        {"to": "[redacted:email]", "count": 3},
        {},
    ]
