"""Trace sampling: kept traces are complete and in order, dropped ones leave nothing."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

import tracereel
from tracereel import semconv
from tracereel._core import sampling
from tracereel._core.sampling import Sampler
from tracereel._export.trace_state import TraceState
from tracereel._redact import values
from tracereel.errors import ConfigurationError
from tracereel.events import parse_event

Event = dict[str, Any]


class Sink:
    """Recorder stub that keeps stored and dropped events in order."""

    def __init__(self, rate: float = 0.0, **limits: Any) -> None:
        self.stored: list[Event] = []
        self.dropped: Counter[str] = Counter()
        limits.setdefault("keep_cost_usd", 1.0)
        self.sampler = Sampler(rate, store=self._store, drop=self._drop, **limits)
        self._traces: dict[str, TraceState] = {}

    def _store(self, event: Event, trace: TraceState | None, closes_run: bool) -> None:
        self.stored.append(json.loads(values.encode(event)))

    def _drop(self, reason: str) -> None:
        self.dropped[reason] += 1

    def send(self, trace_id: str, kind: str, *, closes: bool = False, **fields: Any) -> None:
        trace = self._traces.setdefault(trace_id, TraceState(trace_id, "r"))
        event = {"event_type": kind, "trace_id": trace_id, **fields}
        self.sampler.offer(event, trace, closes_run=closes)


def run(
    sink: Sink, trace_id: str, *middle: tuple[str, dict[str, Any]], fails: bool = False
) -> None:
    sink.send(trace_id, semconv.EXECUTION_STARTED, execution_id="e", n=0)
    for number, (kind, fields) in enumerate(middle, 1):
        sink.send(trace_id, kind, n=number, **fields)
    end = semconv.EXECUTION_FAILED if fails else semconv.EXECUTION_COMPLETED
    sink.send(trace_id, end, closes=True, execution_id="e", n=len(middle) + 1)


TROUBLE = [
    (semconv.RETRY_ATTEMPTED, {}),
    (semconv.FALLBACK_TRIGGERED, {}),
    (semconv.TOOL_CALLED, {"status": "failed"}),
    (semconv.PIPELINE_COMPLETED, {"status": "partial_success"}),
    (semconv.LLM_CALLED, {"llm_cost_usd": 1.5}),
    (semconv.STEP_COMPLETED, {"error_type": "ValueError"}),
]
CALM = [
    (semconv.TOOL_CALLED, {"status": "success"}),
    (semconv.LLM_CALLED, {"llm_cost_usd": 0.001}),
    (semconv.DECISION_RECORDED, {}),
]


@pytest.mark.parametrize("trouble", TROUBLE)
def test_failed_trace_is_kept_completely_and_in_order(trouble: tuple[str, dict[str, Any]]) -> None:
    sink = Sink()
    run(sink, "t", CALM[0], trouble, CALM[1])
    assert [event["n"] for event in sink.stored] == [0, 1, 2, 3, 4]
    assert not sink.dropped


def test_unsampled_trace_is_dropped_and_counted() -> None:
    sink = Sink()
    run(sink, "t", *CALM)
    assert sink.stored == []
    assert sink.dropped == {"sampled_out": 5}
    assert sink.sampler.held_bytes == 0


def test_costs_of_several_calls_are_added_for_sampling() -> None:
    sink = Sink(keep_cost_usd=0.5)
    run(sink, "t", *[(semconv.LLM_CALLED, {"llm_cost_usd": 0.2})] * 3)
    assert len(sink.stored) == 5


def test_a_sibling_run_that_ends_well_does_not_take_an_open_one_with_it() -> None:
    sink = Sink()
    sink.send("t", semconv.EXECUTION_STARTED, execution_id="a", n=0)
    sink.send("t", semconv.EXECUTION_STARTED, execution_id="b", n=1)
    sink.send("t", semconv.EXECUTION_COMPLETED, closes=True, execution_id="b", n=2)
    sink.send("t", semconv.EXECUTION_FAILED, closes=True, execution_id="a", n=3)
    assert [event["n"] for event in sink.stored] == [0, 1, 2, 3]


runs = st.lists(
    st.tuples(
        st.sampled_from([f"trace-{number}" for number in range(6)]),
        st.lists(st.sampled_from(CALM + TROUBLE[:3]), max_size=4),
        st.booleans(),
    ),
    max_size=12,
    unique_by=lambda one: one[0],
)


@given(runs, st.floats(0, 1), st.randoms(use_true_random=False))
def test_each_trace_is_kept_whole_or_not_at_all(plans: list[Any], rate: float, chance: Any) -> None:
    """Randomly interleaved traces: each is stored completely or not at all."""
    sink = Sink(rate)
    queues: dict[str, list[Any]] = {}
    for trace_id, middle, fails in plans:
        end = semconv.EXECUTION_FAILED if fails else semconv.EXECUTION_COMPLETED
        queues[trace_id] = [(semconv.EXECUTION_STARTED, {}), *middle, (end, {})]
    expected = {
        trace_id: list(range(len(middle) + 2))
        for trace_id, middle, fails in plans
        if fails or any(each in TROUBLE for each in middle) or sink.sampler.chosen(trace_id)
    }
    done: Counter[str] = Counter()
    total = sum(map(len, queues.values()))
    while any(queues.values()):
        trace_id = chance.choice([name for name, queue in queues.items() if queue])
        kind, fields = queues[trace_id].pop(0)
        about = {"execution_id": trace_id} if kind.startswith("agent.execution") else {}
        sink.send(
            trace_id, kind, closes=not queues[trace_id], n=done[trace_id], **{**about, **fields}
        )
        done[trace_id] += 1
    stored = defaultdict(list)
    for event in sink.stored:
        stored[event["trace_id"]].append(event["n"])
    assert stored == expected
    assert len(sink.stored) + sink.dropped["sampled_out"] == total
    assert sink.sampler.held_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3_000)), max_size=120))
def test_held_events_are_bounded(sends: list[tuple[int, int]]) -> None:
    """Runs that never end: bytes, events per trace and traces stay bounded and counted."""
    sink = Sink(max_trace_events=10, max_trace_bytes=8_000, max_bytes=20_000, max_traces=8)
    for number, size in sends:
        sink.send(f"t{number}", semconv.TOOL_CALLED, result="x" * size)
        waiting = sink.sampler._waiting
        assert sink.sampler.held_bytes <= 20_000
        assert sink.sampler.held_bytes == sum(each.size for each in waiting.values())
        assert len(waiting) <= 8
        assert all(len(each.events) <= 10 and each.size <= 8_000 for each in waiting.values())
    held = sum(len(each.events) for each in sink.sampler._waiting.values())
    assert held == sink.sampler.held_events
    assert held + sink.dropped["sampled_out"] == len(sends)
    sink.sampler.drain()
    assert sink.dropped["sampled_out"] == len(sends)
    assert sink.stored == []


def test_the_choice_is_by_trace_id_and_near_the_rate() -> None:
    one, other = Sink(0.1).sampler, Sink(0.1).sampler
    ids = [f"{number:032x}" for number in range(5_000)]
    chosen = [trace_id for trace_id in ids if one.chosen(trace_id)]
    assert chosen == [trace_id for trace_id in ids if other.chosen(trace_id)]
    assert 400 < len(chosen) < 600
    assert all(Sink(1.0).sampler.chosen(trace_id) for trace_id in ids[:50])
    assert not any(Sink(0.0).sampler.chosen(trace_id) for trace_id in ids[:50])


def test_an_event_without_a_trace_passes() -> None:
    sink = Sink()
    sink.sampler.offer({"event_type": "custom.x"}, None, closes_run=False)
    assert len(sink.stored) == 1


def test_on_disk_kept_traces_are_complete_and_numbers_have_no_gap(
    tmp_path: Path, registry: CollectorRegistry
) -> None:
    """Through the real recorder: only the failed one of three runs is written, numbered 1, 2, …"""
    tracereel.configure(
        endpoint="http://127.0.0.1:1",
        spool_dir=tmp_path / "sampled",
        sample_rate=0.0,
        registry=registry,
        exit_timeout=0.0,
    )

    @tracereel.traced_tool("tool")
    def tool() -> int:
        return 1

    @tracereel.traced_agent("agent")
    def agent(number: int) -> int:
        tool()
        return 10 // number

    for number in (1, 0, 2, 0):
        try:
            agent(number)
        except ZeroDivisionError:
            pass
    lines = "".join(path.read_text() for path in (tmp_path / "sampled").rglob("*.ndjson"))
    events = [json.loads(line) for line in lines.splitlines()]
    for event in events:
        parse_event(event)
    assert [event["emitter_seq"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert [event["trace_seq"] for event in events] == [1, 2, 3] * 2
    assert [event.get("trace_event_count") for event in events] == [None, None, 3] * 2
    kinds = ["agent.execution.started", "agent.tool.called", "agent.execution.failed"]
    assert [event["event_type"] for event in events] == kinds * 2
    assert len({event["trace_id"] for event in events}) == 2
    sample = registry.get_sample_value
    assert sample("tracereel_sdk_events_dropped_total", {"reason": "sampled_out"}) == 6
    done = {"agent_name": "agent", "status": "success"}
    assert sample("agent_executions_total", done) == 2, "metrics count every run"


@pytest.mark.parametrize(
    "bad", [{"sample_rate": 1.5}, {"sample_rate": "half"}, {"sample_keep_cost_usd": -1}]
)
def test_invalid_sample_rates_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        tracereel.configure(**bad)


def test_drop_reason_name_is_sampled_out() -> None:
    assert sampling.SAMPLED_OUT == "sampled_out"


def test_kept_trace_is_complete_despite_length_and_concurrency() -> None:
    """More events than the buffer holds, with more other traces than it keeps."""
    sink = Sink(max_trace_events=10, max_traces=4, max_bytes=10_000)
    sink.send("kept", semconv.EXECUTION_STARTED, execution_id="e", n=0)
    sink.send("kept", semconv.RETRY_ATTEMPTED, n=1)
    for number in range(2, 200):
        sink.send("kept", semconv.TOOL_CALLED, status="success", n=number)
        sink.send(f"calm-{number}", semconv.EXECUTION_STARTED, execution_id="c")
    sink.send("kept", semconv.EXECUTION_COMPLETED, closes=True, execution_id="e", n=200)
    sink.send("kept", semconv.TOOL_CALLED, status="success", n=201)
    stored = [event["n"] for event in sink.stored if event["trace_id"] == "kept"]
    assert stored == list(range(202))


def test_runs_that_are_open_are_known_up_to_a_limit_and_counted_beyond() -> None:
    sink = Sink(max_trace_events=3)
    for number in range(10):
        sink.send("t", semconv.EXECUTION_STARTED, execution_id=f"e{number}")
    for number in reversed(range(10)):
        sink.send("t", semconv.EXECUTION_COMPLETED, closes=True, execution_id=f"e{number}")
        assert (sink.sampler.held_events == 0) == (number == 0)
    assert sink.dropped["sampled_out"] == 20


def test_held_events_keep_their_timestamps_and_are_counted_by_flush(
    tmp_path: Path, registry: CollectorRegistry
) -> None:
    """One run fails late; another starts and fails in between, so their times interleave."""
    tracereel.configure(
        endpoint="http://127.0.0.1:1",
        spool_dir=tmp_path / "sampled",
        sample_rate=0.0,
        registry=registry,
        exit_timeout=0.0,
    )
    told = []

    @tracereel.traced_agent("inner", trace_id="t-inner")
    def inner() -> None:
        told.append(tracereel.flush(0.0))
        raise OSError("inner")

    @tracereel.traced_agent("outer", trace_id="t-outer")
    def outer() -> None:
        told.append(tracereel.flush(0.0))
        with pytest.raises(OSError, match="inner"):
            inner()
        told.append(tracereel.flush(0.0))
        raise OSError("outer")

    with pytest.raises(OSError, match="outer"):
        outer()
    told.append(tracereel.flush(0.0))
    assert [(each.held, each.spooled) for each in told] == [(1, 0), (2, 0), (1, 2), (0, 4)]
    lines = "".join(path.read_text() for path in (tmp_path / "sampled").rglob("*.ndjson"))
    events = [json.loads(line) for line in lines.splitlines()]
    assert [event["emitter_seq"] for event in events] == [1, 2, 3, 4]
    assert [event["agent_name"] for event in events] == ["inner", "inner", "outer", "outer"]
    ordered = sorted(events, key=lambda event: event["hlc"])
    assert [event["agent_name"] for event in ordered] == ["outer", "inner", "inner", "outer"]
    assert [e["timestamp"] for e in ordered] == sorted(e["timestamp"] for e in events)
