"""Prometheus series: those of the contract (names, labels, buckets exactly) and the SDK's own.

Everything is counted from events, once, at the end of what they speak of. Tokens and cost exist at
two grains, agents' executions and model calls; an execution includes its calls: never add the two.
"""

import os
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from prometheus_client import REGISTRY, CollectorRegistry

from tracereel import _guard, _native, _remote, semconv
from tracereel._cells import MAX_CHILDREN, CounterCell, HistogramCell, Series, in_turn
from tracereel._goals import Answered, observe_many
from tracereel._series import Asked, SeriesSet

Event = Mapping[str, Any]

OUTCOMES: Final = ("recorded", "delivered", "rejected", "dropped")
_TOKEN_HEADERS: Final = (
    ("x-ratelimit-remaining-tokens",),
    ("anthropic-ratelimit-tokens-remaining",),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-output-tokens-remaining"),
)
"""OpenAI and those alike; Anthropic; Anthropic where only the two parts are told: the lesser."""
_RAW_TOKEN_HEADERS: Final = tuple(tuple(map(str.encode, names)) for names in _TOKEN_HEADERS)
_TOKEN_NAMES: Final = frozenset(name for names in _RAW_TOKEN_HEADERS for name in names)
_lowered_and_value: Final = itemgetter(1, 2)
_TOKEN_HEADER_NAMES: Final = tuple(name for names in _TOKEN_HEADERS for name in names)


class Recorded:
    """How many events were written, counted by who writes them, and how many of them we know of."""

    def __init__(self, written: Callable[[], int]) -> None:
        self._written = written
        self._known = 0

    def uncounted(self) -> int:
        """How many have been written since the last time."""
        before, self._known = self._known, self._written()
        return self._known - before


class Metrics(SeriesSet):
    """Counts what events say in the series of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        # There from the start, so that a rate over them begins at nought.
        self._outcomes = {outcome: self.events(outcome) for outcome in OUTCOMES}
        self._runs = {stage: self.runs(stage) for stage in ("opened", "closed")}
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
        """Count what an event says; those that end something say the most, some nothing."""
        handler = self._handlers.get(event["event_type"])
        if handler is not None:
            self._later(handler, event, seconds)

    def observe_llm(self, provider: str | None, seconds: float) -> None:
        """Count the duration of a request to a model that has no event of its own."""
        self._later(self._llm_seconds, provider, seconds)

    def _llm_seconds(self, provider: str | None, seconds: float) -> None:
        self.llm_duration(provider).observe(seconds)

    def follow(self, recorded: "Recorded") -> None:
        """Count what a recorder has written, now and whenever somebody collects."""
        self._recorded.add(recorded)

    def count_recorded(self) -> None:
        """Bring the count of recorded events up to date; else it is when somebody collects."""
        in_turn(self._add_recorded)

    def _add_recorded(self) -> None:
        for recorded in list(self._recorded):
            self._outcomes["recorded"].add(recorded.uncounted())

    def count_waste(self, agent: str, cause: str, cost: float) -> None:
        """Count cost that was for nothing, where no event of an end says so."""
        if cost > 0.0:
            in_turn(lambda: self.agent_waste(agent, cause).add(cost))

    def count_events(self, outcome: str, amount: int = 1) -> None:
        """Count events of our own line: recorded, delivered, rejected or dropped."""
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
        """Count runs that were opened, or whose end the collector has."""
        in_turn(self._runs[stage].add, amount)

    def observe_answer(self, answered: Answered) -> None:
        """Count how late events were that the collector has answered for."""
        in_turn(self._observe_answer, answered)

    def _observe_answer(self, answered: Answered) -> None:
        for seconds, times in answered.delays:
            observe_many(self.delivery, seconds, times)
        self._runs["closed"].add(answered.runs_closed)

    def set_spooled(self, events: int, size: int) -> None:
        """Note what waits for the collector."""
        in_turn(self.spooled_events.set, events)
        in_turn(self.spooled_bytes.set, size)

    def ask_when_collected(self, ask: Callable[[], None]) -> None:
        """Have figures that nobody is told of brought up to date by whoever knows them."""
        for metric in (self.spooled_events, self.spooled_bytes, self.runs.metric):
            if isinstance(metric, Asked):
                metric.ask = ask

    def set_tokens(self, provider: str, tokens: float) -> None:
        """Note what a provider's quota has left."""
        self._later(self._set_tokens, provider, tokens)

    def _set_tokens(self, provider: str, tokens: float) -> None:
        self.tokens_remaining(provider).set(tokens)

    def count_redaction(self, rule: str) -> None:
        """Count something that was hidden."""
        in_turn(lambda: self.redactions(rule).add())

    def count_internal_error(self, where: str) -> None:
        """Count an error of ours."""
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

    def count_call(
        self, provider: str, model: str, seconds: float, prompt: int, answer: int, trace_id: str
    ) -> None:
        """Count a call of a model that went well and of which this is all."""
        self._later(self._plain_call, provider, model, seconds, prompt, answer, trace_id)

    def _plain_call(
        self, provider: str, model: str, seconds: float, prompt: int, answer: int, trace_id: str
    ) -> None:
        self.llm_calls(provider, model, semconv.SUCCESS).add(1, trace_id)
        self.llm_duration(provider).observe(seconds, trace_id)
        if prompt:
            self.llm_tokens(provider, model, "input").add(prompt)
        if answer:
            self.llm_tokens(provider, model, "output").add(answer)

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
    # Where only the total is known, or it is more than the parts say.
    rest = (event.get("llm_tokens_used") or 0) - prompt - answer
    for direction, amount in (("input", prompt), ("output", answer), ("unknown", rest)):
        if amount > 0:
            series(*labels, direction).add(amount)


_registering = _native.RLock()
os.register_at_fork(
    before=_registering.acquire,
    after_in_parent=_registering.release,
    after_in_child=_registering.release,
)
_by_registry: WeakKeyDictionary[CollectorRegistry, Metrics] = WeakKeyDictionary()


def metrics_of(registry: CollectorRegistry | None) -> Metrics:
    """The series of a registry (the default one without an argument), registered at most once."""
    chosen = registry if registry is not None else REGISTRY
    with _registering:
        found = _by_registry.get(chosen)
        if found is None:
            found = _by_registry[chosen] = Metrics(chosen)
        return found


def exposed_registry() -> CollectorRegistry:
    """The registry that `configure` was given, else the default one."""
    from tracereel import _recorder  # it imports us

    # Not `active()`: asking for a registry is no reason to configure anything.
    recorder = _recorder._active  # noqa: SLF001
    if not isinstance(recorder, _recorder.Recorder):
        return REGISTRY
    given: CollectorRegistry | None = recorder._wiring["registry"]  # noqa: SLF001
    return given if given is not None else REGISTRY


def set_tokens_remaining(
    llm_provider: str, tokens: float, *, registry: CollectorRegistry | None = None
) -> None:
    """Say how many tokens a provider's quota has left; until then the series does not exist."""
    with _guard.Guard("metrics"):
        chosen = registry if registry is not None else exposed_registry()
        metrics_of(chosen).set_tokens(llm_provider, tokens)


def tokens_remaining_from_headers(
    llm_provider: str, headers: object, *, registry: CollectorRegistry | None = None
) -> int | None:
    """Read the rate-limit headers of a provider's answer; gives what they say is left, if they do.

    Those of OpenAI (and of whoever speaks like it) and of Anthropic are understood.
    """
    left = None
    with _guard.Guard("metrics"):
        left = tokens_remaining(headers)
        if left is not None:
            set_tokens_remaining(llm_provider, left, registry=registry)
    return left


def tokens_remaining(headers: object) -> int | None:
    """What the rate-limit headers of a provider's answer say is left, if they do."""
    all_found = _remote.header_values(headers, _TOKEN_HEADER_NAMES)
    for names in _TOKEN_HEADERS:
        values = [value for name in names for value in all_found[name]]
        told = [int(value) for value in values if _is_count(value)]
        if told:
            return min(told)
    return None


def tokens_remaining_raw(headers: list[tuple[bytes, bytes, bytes]]) -> int | None:
    """The same of headers as httpx keeps them, name, lowered name, value: asked of every answer."""
    found = dict(map(_lowered_and_value, headers))
    if _TOKEN_NAMES.isdisjoint(found):
        return None
    if len(found) == len(headers):
        for names in _RAW_TOKEN_HEADERS:
            told = [
                int(value) for name in names if (value := found.get(name)) and _is_count_raw(value)
            ]
            if told:
                return min(told)
        return None
    said = [(name.decode(), value.decode("latin-1")) for _, name, value in headers]
    return tokens_remaining(said)


def _is_count_raw(value: bytes) -> bool:
    return value.isdigit() and len(value) < 16


def _is_count(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 16
