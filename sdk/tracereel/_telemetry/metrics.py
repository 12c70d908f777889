"""Prometheus series of the event contract and of the SDK itself, counted from events.

Tokens and cost exist at two grains, agent executions and model calls. An execution includes its calls:
never add the two.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from prometheus_client import REGISTRY, CollectorRegistry

from tracereel import semconv
from tracereel._runtime import gevent_compat
from tracereel._telemetry.delivery_slo import Answered, observe_many
from tracereel._telemetry.metric_buffer import (
    MAX_CHILDREN,
    CounterCell,
    HistogramCell,
    Series,
    in_turn,
)
from tracereel._telemetry.metric_definitions import RefreshedMetric, SeriesSet

Event = Mapping[str, Any]

OUTCOMES: Final = ("recorded", "delivered", "rejected", "dropped")


class Recorded:
    """Counter of written events since the last call."""

    def __init__(self, written: Callable[[], int]) -> None:
        self._written = written
        self._known = 0

    def uncounted(self) -> int:
        """Return the events written since the last call."""
        before, self._known = self._known, self._written()
        return self._known - before


class Metrics(SeriesSet):
    """Metrics of one registry, updated from events."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        # Create the children now, so that rates start at zero.
        self._outcomes = {outcome: self.events(outcome) for outcome in OUTCOMES}
        self._runs = {stage: self.runs(stage) for stage in ("opened", "closed", "succeeded")}
        series = [each for each in vars(self).values() if isinstance(each, Series)]
        self._later = in_turn.later if all(each.gathers for each in series) else in_turn
        self._recorded: WeakSet[Recorded] = WeakSet()
        self.events.before = self._add_recorded
        self._ends: dict[tuple[str, str], tuple[CounterCell, CounterCell, HistogramCell]] = {}
        self._handlers: dict[str, Callable[[Event, float | None], None]] = {
            semconv.EXECUTION_COMPLETED: self._completed,
            semconv.EXECUTION_FAILED: self._failed,
            semconv.EXECUTION_CANCELLED: self._cancelled,
            semconv.PIPELINE_COMPLETED: self._pipeline,
            semconv.RETRY_ATTEMPTED: self._retry,
            semconv.FALLBACK_TRIGGERED: self._fallback,
            semconv.LLM_CALLED: self._llm,
            semconv.TOOL_CALLED: self._tool,
        }

    def observe(self, event: Event, seconds: float | None) -> None:
        """Update the metrics for an event; some event types have none."""
        handler = self._handlers.get(event["event_type"])
        if handler is not None:
            self._later(handler, event, seconds)

    def observe_llm(self, provider: str | None, seconds: float) -> None:
        """Observe the duration of a model request that has no event."""
        self._later(self._llm_seconds, provider, seconds)

    def _llm_seconds(self, provider: str | None, seconds: float) -> None:
        self.llm_duration(provider).observe(seconds)

    def follow(self, recorded: "Recorded") -> None:
        """Include a recorder's written events in the count, updated at each collection."""
        self._recorded.add(recorded)

    def count_recorded(self) -> None:
        """Update the count of recorded events now instead of at the next collection."""
        in_turn(self._add_recorded)

    def _add_recorded(self) -> None:
        for recorded in list(self._recorded):
            self._outcomes["recorded"].add(recorded.uncounted())

    def count_waste(self, agent: str, cause: str, cost: float) -> None:
        """Count wasted cost that no closing event reports."""
        if cost > 0.0:
            in_turn(lambda: self.agent_waste(agent, cause).add(cost))

    def count_events(self, outcome: str, amount: int = 1) -> None:
        """Count events by outcome: recorded, delivered, rejected or dropped."""
        in_turn(self._outcomes[outcome].add, amount)

    def count_drop(self, reason: str, events: int = 1) -> None:
        """Count events that could not be recorded."""
        self.count_events("dropped", events)
        in_turn(lambda: self.dropped(reason).add(events))

    def count_spans(self, delivered: int, dropped: Mapping[str, int]) -> None:
        """Count spans of other instrumentations: delivered, or dropped by reason."""
        in_turn(self._count_spans, delivered, dropped)

    def _count_spans(self, delivered: int, dropped: Mapping[str, int]) -> None:
        self.spans("delivered").add(delivered)
        for reason, number in dropped.items():
            self.spans("dropped").add(number)
            if number:
                self.spans_dropped(reason).add(number)

    def count_runs(self, stage: str, amount: int) -> None:
        """Count runs that were opened, or whose end the collector has acknowledged."""
        in_turn(self._runs[stage].add, amount)

    def observe_answer(self, answered: Answered) -> None:
        """Observe the delivery delays and closed runs of a response."""
        in_turn(self._observe_answer, answered)

    def _observe_answer(self, answered: Answered) -> None:
        for seconds, times in answered.delays:
            observe_many(self.delivery, seconds, times)
        self._runs["closed"].add(answered.runs_closed)
        self._runs["succeeded"].add(answered.runs_succeeded)

    def set_spooled(self, events: int, size: int) -> None:
        """Set the number and bytes of events that wait for the collector."""
        in_turn(self.spooled_events.set, events)
        in_turn(self.spooled_bytes.set, size)

    def refresh_when_collected(self, refresh: Callable[[], None]) -> None:
        """Register a callback that refreshes gauges and run counts before collection."""
        for metric in (self.spooled_events, self.spooled_bytes, self.runs.metric):
            if isinstance(metric, RefreshedMetric):
                metric.refresh = refresh

    def set_tokens(self, provider: str, tokens: float) -> None:
        """Set the tokens that are left in a provider's quota."""
        self._later(self._set_tokens, provider, tokens)

    def _set_tokens(self, provider: str, tokens: float) -> None:
        self.tokens_remaining(provider).set(tokens)

    def count_redaction(self, rule: str) -> None:
        """Count a redaction by rule."""
        in_turn(lambda: self.redactions(rule).add())

    def count_internal_error(self, where: str) -> None:
        """Count an internal error by place."""
        in_turn(lambda: self.internal_errors(where).add())

    def _completed(self, event: Event, seconds: float | None) -> None:
        self._ended(event, semconv.SUCCESS, seconds)
        if (confidence := event["confidence"]) is not None:
            self.confidence(event["agent_name"]).set(confidence)

    def _failed(self, event: Event, seconds: float | None) -> None:
        self._ended(event, semconv.FAILED, seconds)
        labels = event["agent_name"], event.get("error_type"), event.get("error_category")
        self.errors(*labels).add(1, event.get("trace_id"))

    def _cancelled(self, event: Event, seconds: float | None) -> None:
        self._ended(event, semconv.CANCELLED, seconds)

    def _ended(self, event: Event, status: str, seconds: float | None) -> None:
        agent, trace_id = event["agent_name"], event.get("trace_id")
        cells = self._ends.get((agent, status))
        if cells is None:
            cells = self.executions(agent, status), self.attempts(agent), self.duration(agent)
            if len(self._ends) < MAX_CHILDREN:
                self._ends[agent, status] = cells
        executions, attempts, duration = cells
        executions.add(1, trace_id)
        attempts.add(event.get("attempts_made") or 1 + (event.get("retry_count") or 0))
        if (former := event.get("repeats_status")) is not None:
            self.repeated(agent, former).add(1, trace_id)
        if seconds is not None:
            duration.observe(seconds, trace_id)
        if (first := event.get("time_to_first_token_ms")) is not None:
            self.agent_first_token(agent).observe(first / 1000, trace_id)
            if (rate := event.get("tokens_per_second")) is not None:
                self.agent_token_rate(agent).observe(rate, trace_id)
        if event.get("llm_tokens_used") or event.get("llm_prompt_tokens"):
            _add_tokens(self.agent_tokens, (agent,), event)
        if cost := event.get("llm_cost_usd"):
            self.agent_cost(agent).add(cost, trace_id)
            if status != semconv.SUCCESS:
                self.agent_waste(agent, status).add(cost, trace_id)

    def _pipeline(self, event: Event, _seconds: float | None) -> None:
        labels = event["pipeline_type"], event["status"]
        self.pipelines(*labels).add(1, event.get("trace_id"))

    def _retry(self, event: Event, _seconds: float | None) -> None:
        labels = event["agent_name"], event.get("retry_reason")
        self.retries(*labels).add(1, event.get("trace_id"))

    def _fallback(self, event: Event, _seconds: float | None) -> None:
        labels = event["primary_agent"], event["fallback_agent"]
        self.fallbacks(*labels).add(1, event.get("trace_id"))

    def _llm(self, event: Event, seconds: float | None) -> None:
        trace_id, status = event.get("trace_id"), event["status"]
        model = event.get("llm_provider"), event.get("llm_model")
        self.llm_calls(*model, status).add(1, trace_id)
        self.llm_duration(model[0]).observe(_seconds_of(event, seconds), trace_id)
        if (first := event.get("time_to_first_token_ms")) is not None:
            self.first_token(*model).observe(first / 1000, trace_id)
        _add_tokens(self.llm_tokens, model, event)
        if cost := event.get("llm_cost_usd"):
            self.llm_cost(*model).add(cost, trace_id)
            if status != semconv.SUCCESS:
                self.llm_waste(*model, status).add(cost, trace_id)

    def _tool(self, event: Event, seconds: float | None) -> None:
        trace_id, tool = event.get("trace_id"), event["tool_name"]
        self.tool_calls(tool, event["status"]).add(1, trace_id)
        self.tool_duration(tool).observe(_seconds_of(event, seconds), trace_id)


def _seconds_of(event: Event, seconds: float | None) -> float:
    return seconds if seconds is not None else (event.get("duration_ms") or 0) / 1000


def _add_tokens(series: Series[CounterCell], labels: tuple[object, ...], event: Event) -> None:
    prompt, answer = event.get("llm_prompt_tokens") or 0, event.get("llm_completion_tokens") or 0
    # Tokens of unknown direction: the total exceeds the known parts.
    rest = (event.get("llm_tokens_used") or 0) - prompt - answer
    for direction, amount in (("input", prompt), ("output", answer), ("unknown", rest)):
        if amount > 0:
            series(*labels, direction).add(amount)


_registering = gevent_compat.RLock()
os.register_at_fork(
    before=_registering.acquire,
    after_in_parent=_registering.release,
    after_in_child=_registering.release,
)
_by_registry: WeakKeyDictionary[CollectorRegistry, Metrics] = WeakKeyDictionary()


def metrics_of(registry: CollectorRegistry | None) -> Metrics:
    """Return the series of a registry, registering them at most once; default: the global registry."""
    chosen = registry if registry is not None else REGISTRY
    with _registering:
        found = _by_registry.get(chosen)
        if found is None:
            found = _by_registry[chosen] = Metrics(chosen)
        return found
