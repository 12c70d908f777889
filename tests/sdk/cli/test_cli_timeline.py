"""A replay rendered as lines of text."""

import json
import re
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from tracereel.cli.steps import _KINDS, duration
from tracereel.cli.terminal import Terminal, display_width
from tracereel.cli.timeline import depths, header, render
from tracereel.client import Replay, Step


def replay_of(document):
    steps = tuple(Step(e["time"], e["event"], e["details"]) for e in document["timeline"])
    return Replay(document["trace_id"], steps, document["summary"], b"")


def lines_of(document, **terminal):
    return list(render(replay_of(document), Terminal(**{"width": 140, **terminal})))


class TestDuration:
    @given(st.floats(-1e12, 1e12))
    @example(999.5)
    @example(59_995.0)
    @example(59_999.9)
    @example(119_500.0)
    @example(-119_500.0)
    def test_keeps_to_the_range_of_its_unit_and_to_the_number(self, milliseconds):
        shown = duration(milliseconds)

        found = re.fullmatch(r"(-?)(?:(\d+) ms|(\d+\.\d\d) s|(\d+) min (\d+) s)", shown)
        assert found, shown
        sign, thousandths, seconds, minutes, rest = found.groups()
        if thousandths is not None:
            size, unit = float(thousandths), 1
            assert size < 1_000
        elif seconds is not None:
            size, unit = float(seconds) * 1_000, 10
            assert 1_000 <= size < 60_000
        else:
            size, unit = (float(minutes) * 60 + float(rest)) * 1_000, 1_000
            assert int(minutes) >= 1
            assert int(rest) < 60
        assert abs((-size if sign else size) - milliseconds) <= unit / 2 + 0.001


class TestHeader:
    def test_header_shows_the_run_and_its_outcome(self, recorded_document):
        assert header(replay_of(recorded_document)) == [
            ("trace", "trc_main_abc123"),
            ("pipeline", "appointment_creation · partial_success · appointment_created"),
            ("prompt", "cita mañana 10am con Dr. Pérez"),
            ("duration", "4.85 s"),
            ("counts", "13 events · 3 agents · 1 decision · 1 error · 1 retry · 1 fallback"),
            ("model", "423 tokens · $0.00042"),
        ]

    def test_a_run_without_an_end_is_shown_as_not_finished(self, recorded_document):
        recorded_document["timeline"].pop()
        recorded_document["summary"]["status"] = None

        rows = dict(header(replay_of(recorded_document)))

        assert rows["pipeline"] == "appointment_creation · not finished"

    def test_tokens_and_cost_are_added_up_where_the_summary_has_none(self, recorded_document):
        del recorded_document["summary"]["llm_tokens_used"]
        del recorded_document["summary"]["llm_cost_usd"]

        assert dict(header(replay_of(recorded_document)))["model"] == "423 tokens · $0.00042"

    def test_truncated_run_is_marked(self, recorded_document):
        recorded_document["summary"]["truncated"] = True

        rows = dict(header(replay_of(recorded_document)))

        assert rows["note"] == "only the first 13 events are shown"


class TestTimeline:
    def test_each_event_is_one_line_with_offset_symbol_agent_and_what_happened(
        self, recorded_document
    ):
        lines = lines_of(recorded_document)

        assert len(recorded_document["timeline"]) == len(lines) - 7
        assert "+0.010 s    ▶ parsing_agent        started · qwen-2.5 · " in lines[8]
        assert "✔ parsing_agent        completed in 1.85 s · confidence 0.92" in lines[11]
        assert "decided entity_extraction · confidence 0.92 · chose medical of 2" in lines[10]
        assert "✖ temporal_agent       failed after 1.14 s · LLMTimeoutError: timeout" in lines[14]

    def test_steps_are_indented_by_their_spans(self, recorded_document):
        steps = replay_of(recorded_document).timeline

        assert depths(steps) == [0, 1, 2, 2, 1, 1, 2, 1, 1, 1, 2, 1, 0]

    def test_steps_without_spans_are_indented_by_their_kind(self, recorded_document):
        for entry in recorded_document["timeline"]:
            del entry["details"]["span_id"], entry["details"]["parent_span_id"]

        assert depths(replay_of(recorded_document).timeline)[:4] == [0, 1, 1, 2]

    def test_steps_and_retrievals_are_called_by_their_names(self):
        told = (
            ("step", {"agent_name": "parser", "step_name": "check", "duration_ms": 9}),
            ("retrieval", {"agent_name": "parser", "retrieval_name": "notes"}),
            ("retrieval", {"agent_name": "parser"}),
        )
        timeline = [
            {"time": "", "event": f"agent.{kind}.completed", "details": details}
            for kind, details in told
        ]
        lines = lines_of({"trace_id": "t", "timeline": timeline, "summary": {}})

        assert [line.split("parser")[1].strip() for line in lines[-3:]] == [
            "step check in 9 ms",
            "looked up notes",
            "looked up something",
        ]

    def test_spans_that_name_each_other_as_parent_do_not_hang(self):
        steps = [
            Step("", "agent.execution.started", {"span_id": "a", "parent_span_id": "b"}),
            Step("", "agent.execution.started", {"span_id": "b", "parent_span_id": "a"}),
        ]

        assert len(depths(steps)) == 2

    def test_a_terminal_without_unicode_gets_ascii(self, recorded_document):
        assert all(line.isascii() for line in lines_of(recorded_document, unicode=False))

    def test_long_reasoning_is_cut_to_the_width(self, recorded_document):
        recorded_document["timeline"][3]["details"]["reasoning"] = "因为" * 500

        lines = lines_of(recorded_document, width=90)

        assert max(map(display_width, lines)) <= 90
        assert lines[10].endswith("…")

    def test_recorded_escape_sequences_do_not_reach_the_terminal(self, recorded_document):
        hostile = "\x1b[2J\x1b]0;owned\x07\r\n\u202eevil"
        for entry in recorded_document["timeline"]:
            for key, value in entry["details"].items():
                if isinstance(value, str) and "span_id" not in key:
                    entry["details"][key] = hostile
        recorded_document["trace_id"] = hostile

        shown = "\n".join(lines_of(recorded_document))

        assert "evil" in shown
        assert not {"\x1b", "\x07", "\r", "\u202e"} & set(shown)


FIELDS = [
    "span_id",
    "parent_span_id",
    "agent_name",
    "pipeline_type",
    "llm_model",
    "input_summary",
    "execution_time_ms",
    "confidence",
    "llm_tokens_used",
    "llm_cost_usd",
    "reasoning",
    "error_type",
    "error_message",
    "stage",
    "candidates",
    "chosen",
    "retry_attempt",
    "delay_seconds",
    "fallback_successful",
    "fallback_agent",
    "sequence_length",
    "total_execution_time_ms",
    "status",
    "duration_ms",
    "arguments",
    "content",
    "user_prompt",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\x1b[31m\x07"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
DETAILS = st.dictionaries(st.sampled_from(FIELDS) | st.text(), VALUES, max_size=12)
STEPS = st.builds(
    Step,
    time=st.text() | st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    event=st.sampled_from(sorted(_KINDS)) | st.text(),
    details=DETAILS,
)
REPLAYS = st.builds(
    Replay,
    trace_id=st.text(),
    timeline=st.lists(STEPS, max_size=6).map(tuple),
    summary=DETAILS | st.dictionaries(st.sampled_from(["total_time_ms", "errors"]), VALUES),
    raw=st.just(b""),
)


@given(REPLAYS, st.integers(40, 200), st.booleans())
@example(
    Replay("t", (Step("", "agent.execution.completed", {"llm_cost_usd": 10**400}),), {}, b""),
    80,
    True,
)
@example(
    Replay("t", (Step("", "agent.execution.failed", {"error_type": "e\u0301" * 60}),), {}, b""),
    40,
    False,
)
@example(
    Replay("t", (Step("", "agent.execution.failed", {"error_type": "ﷺ½" * 30}),), {}, b""),
    40,
    False,
)
def test_rendering_never_fails_and_never_controls_the_terminal(replay, width, unicode):
    """Every line is printable text within the width, whatever was recorded."""
    terminal = Terminal(width=width, unicode=unicode)

    for line in render(replay, terminal):
        assert not {unicodedata.category(c) for c in line} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
        assert display_width(line) <= width


def test_events_of_a_span_are_indented_below_it_with_their_attributes():
    mark = {"name": "retry_attempted", "attributes": {"attempt": 2, "error": "timeout\x1b[2J"}}
    timeline = [
        ("otel.span", {"span_id": "a", "span_name": "parsing_agent.process"}),
        ("otel.span_event", {"span_id": "a", **mark}),
    ]
    entries = [
        {"time": "2026-01-23T10:00:00Z", "event": event, "details": details}
        for event, details in timeline
    ]
    document = {"trace_id": "trc", "timeline": entries, "summary": {}}

    line = lines_of(document, unicode=False)[-1]

    assert re.search(r"  \. retry_attempted +span event - attempt=2 - error=timeout", line), line
    assert "\x1b" not in line


@given(REPLAYS)
def test_a_replay_survives_the_way_through_json(replay):
    """Rendering does not depend on Python types that JSON cannot carry."""
    steps = [
        {"time": s.time, "event": s.event, "details": dict(s.details)} for s in replay.timeline
    ]
    document = {"trace_id": replay.trace_id, "timeline": steps, "summary": dict(replay.summary)}

    again = replay_of(json.loads(json.dumps(document)))

    assert list(render(replay, Terminal())) == list(render(again, Terminal()))
