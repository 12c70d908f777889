"""Events and spans of a run come in the order in which they happened."""

from hypothesis import given
from hypothesis import strategies as st

from tests.collector.query.rows import BEGAN, event, rows, span
from tests.collector.query.test_tree import HELD
from tracereel_collector.query.run.analysis import analyse
from tracereel_collector.query.run.rows import SpanEventRow
from tracereel_collector.query.run.summary import summary_of
from tracereel_collector.query.run.timeline import timeline_of
from tracereel_collector.query.run.tree import build

MICRO = 1_000
GAPS = st.sampled_from([1, 40, 900, 7_000, 150_000, 3_000_000])
"""Nanoseconds between two moments of a program."""


class Machine:
    """Process with its own wall clock and hybrid logical clock."""

    def __init__(self, name, skew):
        self.name, self.skew, self.last = name, skew, 0

    def tick(self, now):
        self.last = max(now + self.skew, self.last + 1)
        return self.last


class Program:
    """Simulated program: nested calls on some machines, recorded as the SDK and OpenTelemetry do."""

    def __init__(self, skews, lag):
        self.machines = [Machine(f"m{number}", skew) for number, skew in enumerate(skews)]
        self.now, self.lag = BEGAN, lag
        self.stack, self.events, self.spans, self.span_events = [], [], [], []
        self.happened = []
        """Entries in true order: (kind, span id)."""
        self.causes = {}
        self.ids = iter(f"{number:016x}" for number in range(1, 10_000))

    def _machine(self):
        return self.stack[-1][2] if self.stack else self.machines[0]

    def _record(self, kind, span_id, machine, **fields):
        taken = self.now + machine.skew
        self.now += self.lag  # an event is numbered a little after its time was taken
        made = event(kind, span_id=span_id, emitter_id=machine.name, service=machine.name, **fields)
        made.unix_nano = taken - taken % MICRO
        made.hlc = machine.tick(self.now)
        made.time = f"{kind} {span_id}"
        self.events.append(made)
        self.happened.append((f"agent.{kind}", span_id))

    def enter(self, kind, machine):
        caller, machine = self._machine(), self.machines[machine % len(self.machines)]
        machine.last = max(machine.last, caller.last)
        parent = self.stack[-1][1] if self.stack else ""
        span_id = next(self.ids)
        self.causes[span_id] = parent
        began = self.now + machine.skew
        if kind == "agent":
            self._record("execution.started", span_id, machine, parent_span_id=parent)
        elif kind == "span":
            self.happened.append(("otel.span", span_id))
        self.stack.append((kind, span_id, machine, began, parent))

    def leave(self):
        if not self.stack:
            return
        kind, span_id, machine, began, parent = self.stack.pop()
        ended = self.now + machine.skew
        if kind == "span":
            made = span(span_id, parent, 0, 0, service=machine.name)
            self.spans.append(_changed(made, began=began, duration=ended - began))
        else:
            closing = {"agent": "execution.completed", "llm": "llm.called"}[kind]
            ids = {"parent_span_id": parent, "span_start": began, "span_end": ended}
            self._record(closing, span_id, machine, **ids)
        caller = self._machine()
        caller.last = max(caller.last, machine.last)

    def decide(self):
        agents = [
            (span_id, machine) for kind, span_id, machine, *_ in self.stack if kind == "agent"
        ]
        if agents and agents[-1][1] is self._machine():
            self._record("decision.recorded", *agents[-1])

    def mark(self):
        """Add an event to the current span."""
        if self.stack and self.stack[-1][0] == "span":
            _, span_id, machine, *_ = self.stack[-1]
            number = sum(each.span_id == span_id for each in self.span_events) + 1
            self.span_events.append(
                SpanEventRow("0" * 32, span_id, number, self.now + machine.skew, "retry_attempted")
            )
            self.happened.append(("otel.span_event", span_id))

    def run(self, steps):
        for (what, machine), gap in steps:
            self.now += gap
            if what == "leave":
                self.leave()
            elif what in ("decide", "mark"):
                getattr(self, what)()
            else:
                self.enter(what, machine)
        while self.stack:
            self.now += 5
            self.leave()
        made = rows(*self.events, spans=self.spans, span_events=self.span_events)
        return analyse(build(made), {})


def _changed(row, **fields):
    given = {name: getattr(row, name) for name in row.__struct_fields__}
    return type(row)(**{**given, **fields})


STEPS = st.lists(
    st.tuples(
        st.tuples(
            st.sampled_from(["agent", "llm", "span", "span", "mark", "decide", "leave", "leave"]),
            st.integers(0, 2),
        ),
        GAPS,
    ),
    min_size=1,
    max_size=30,
).filter(lambda steps: any(what in ("agent", "llm", "span") for (what, _), _ in steps))
LAGS = st.sampled_from([0, 30, 2_500, 900_000])


def shown(analysis):
    """Return the (kind, span id) of all entries, and check that offsets and cursors grow."""
    entries = timeline_of(analysis, tenant="default")
    cursors = [entry.cursor for entry in entries]
    assert len(set(cursors)) == len(cursors)
    assert cursors == sorted(cursors)
    summary = summary_of(analysis)
    assert summary["total_events"] == len(entries)
    assert summary["retries"] == summary["span_events"]
    return [_what(entry) for entry in entries], [entry.offset_ms for entry in entries]


def _what(entry):
    text = entry.data.decode()
    kind = text.split('"event":"')[1].split('"')[0]
    return kind, text.rsplit('"step":{"id":"', 1)[1].split('"')[0]


@HELD
@given(STEPS, LAGS)
def test_any_mix_of_events_and_spans_comes_in_the_order_in_which_it_happened(steps, lag):
    program = Program([0], lag)
    analysis = program.run([((what, 0), gap) for (what, _), gap in steps])

    entries, offsets = shown(analysis)
    assert entries == program.happened
    assert offsets == sorted(offsets)


@HELD
@given(STEPS, LAGS, st.lists(st.integers(-600_000, 600_000), min_size=2, max_size=3))
def test_with_wrong_clocks_everything_follows_its_cause(steps, lag, skews):
    program = Program([milliseconds * 1_000_000 for milliseconds in skews], lag)
    analysis = program.run(steps)

    entries, _ = shown(analysis)
    assert sorted(entries) == sorted(program.happened)
    events = [each for each in entries if each[0].startswith("agent.")]
    assert events == [each for each in program.happened if each[0].startswith("agent.")]
    first = {}
    for place, (kind, span_id) in enumerate(entries):
        if kind in ("otel.span", "agent.execution.started"):
            first[span_id] = place
    for place, (_, span_id) in enumerate(entries):
        cause = program.causes[span_id]
        assert cause not in first or first[cause] < place
        assert first.get(span_id, place) <= place


def test_a_span_that_began_before_its_agent_ended_precedes_the_end():
    """The agent's start is written later than it happened; spans count from the start."""
    run = rows(
        event("execution.started", 0, hlc=1, span_id="a", agent_name="parser"),
        event("execution.completed", 2, start=0, hlc=2.01, span_id="a", agent_name="parser"),
        spans=[span("b", "a", 1.5, 1.9)],
    )

    entries, offsets = shown(analyse(build(run), {}))

    assert [kind for kind, _ in entries] == [
        *("agent.execution.started", "otel.span", "agent.execution.completed")
    ]
    assert offsets == sorted(offsets)


def test_spans_behind_an_event_that_was_numbered_late_keep_their_order():
    """A thread that has to wait takes the time of its event long before its number."""
    mark = SpanEventRow("0" * 32, "f", 1, BEGAN + 53_000_000, "retry_attempted")
    run = rows(
        event("execution.started", 0, hlc=0.1, span_id="a", agent_name="parser"),
        event("execution.completed", 10, start=5, hlc=51, span_id="x", agent_name="other"),
        event("decision.recorded", 52, hlc=52.1, span_id="a", agent_name="parser"),
        event("decision.recorded", 60, hlc=60.1, span_id="a", agent_name="parser"),
        event("execution.completed", 70, start=0, hlc=70.1, span_id="a", agent_name="parser"),
        spans=[span("f", "a", 20, 65), span("b", "f", 54, 62)],
        span_events=[mark],
    )

    entries, _ = shown(analyse(build(run), {}))

    assert entries[1:6] == [
        ("agent.execution.completed", "x"),
        ("otel.span", "f"),
        ("agent.decision.recorded", "a"),
        ("otel.span_event", "f"),
        ("otel.span", "b"),
    ]
