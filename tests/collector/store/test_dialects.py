"""Spans of other instrumentations in one form: real recordings against reviewed results."""

import json
from collections import Counter

import pytest

from tests.collector.store.dialects import golden
from tracereel_collector.store.dialects import names
from tracereel_collector.store.dialects.columns import COLUMNS

BODIES = golden.bodies()
EXPECTED = json.loads(golden.GOLDEN.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def translated(migrated):
    return golden.translated(migrated)


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_dialect_is_translated_as_reviewed(translated, name):
    assert translated[name] == EXPECTED[name]


def test_every_recording_has_reviewed_results_and_package_versions():
    versions = json.loads((golden.FIXTURES / "versions.json").read_text())

    assert sorted(EXPECTED) == sorted(BODIES)
    assert sorted(versions) == sorted(path.stem for path in golden.FIXTURES.glob("*.pb"))


RECORDED = sorted(path.stem for path in golden.FIXTURES.glob("*.pb"))


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_all_instrumentations_give_the_same_result_for_the_same_call(name):
    """The stand-in servers gave one response each: the sent spans differ, the result must not."""
    calls = [each for each in EXPECTED[name] if each.get("PromptTokens", 0) > 7]
    assert calls
    for call in calls:
        anthropic = "claude" in call["ModelServed"]
        counts = (call["PromptTokens"], call["CompletionTokens"], call["TotalTokens"])
        assert counts == ((370, 15, 385) if anthropic else (120, 30, 150))
        if anthropic:
            assert (call["CacheReadTokens"], call["CacheWriteTokens"]) == (300, 50)
        else:
            assert call.get("CacheReadTokens", 40) == 40
            assert call["ModelServed"] == "gpt-4o-mini-2024-07-18"


@pytest.mark.parametrize("name", sorted(set(RECORDED) - {"otel-genai-old"}))
def test_messages_of_every_form_become_one_list_of_parts(name):
    (first, *_) = [each for each in EXPECTED[name] if "ToolCalls" in each]
    texts = [
        (message["role"], part["content"])
        for message in first["InputMessages"]
        for part in message["parts"]
        if part["type"] == "text"
    ]
    (call,) = first["ToolCalls"]

    assert ("user", "What is the weather in Lima?") in texts
    assert (call["name"], call["arguments"]) == ("get_weather", {"city": "Lima"})
    assert call["id"] in ("call_1", "toolu_1")


def test_each_name_belongs_to_one_slot_and_fits_its_code():
    uses = Counter(name for known in names.SLOTS.values() for name in known)

    assert [name for name, count in uses.items() if count > 1] == []
    assert max(len(known) for known in names.SLOTS.values()) <= 16
    assert len(names.SLOTS) < 256


def test_kind_provider_and_finish_reason_names_are_unambiguous():
    for table in (names.KINDS, names.PROVIDERS, names.FINISH_REASONS):
        uses = Counter(word for words in table.values() for word in words)
        assert [word for word, count in uses.items() if count > 1] == []
        assert all(word == word.lower() for word in uses)


def test_the_exporters_columns_come_first_and_ours_behind_them(migrated):
    columns = [row[0] for row in migrated.rows("DESCRIBE TABLE otel_traces")]

    assert columns[:12] == [
        *("Timestamp", "TraceId", "SpanId", "ParentSpanId", "TraceState", "SpanName", "SpanKind"),
        *("ServiceName", "ResourceAttributes", "ScopeName", "ScopeVersion", "SpanAttributes"),
    ]
    assert columns[-len(COLUMNS) :] == list(COLUMNS)


def test_a_trace_is_found_by_its_key_through_the_view_that_shows_each_span_once(migrated):
    plan = migrated.rows(
        "EXPLAIN indexes = 1 SELECT SpanName FROM otel_traces"
        " WHERE TenantId = 'a' AND TraceId = 'b'"
    )

    condition = " ".join(row[0] for row in plan)
    assert "TraceId in ['b', 'b']" in condition.replace("\\", "")
