"""The calls of a run: which spans describe a model call that another span describes too.

This is the one definition of "calls" for every reader. With two instrumentations on at once, a call has
several spans. They are recognised by ancestry, by the provider's id of the answer, and, only between
different instrumentation scopes, by time: one lies within the other, with the same model and usage.
A point in time with usage describes the streamed call of its scope that ended before it.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tracereel_collector.store.dialects.names import DIRECT_KINDS

MAX_ABOVE: Final = 64
"""Maximum spans between a call and the call around it, and between a call and its agent."""
MAX_ALIKE: Final = 500
"""Maximum calls of a trace, of one usage or streamed, that are compared by time; others are counted."""
_BESIDE_NAME: Final = re.compile(r"^.*/|[-@](\d{8}|\d{4}-\d\d-\d\d|latest)$")
"""Path and date in the name of a model."""
_OF_ITS_OWN: Final = frozenset(
    {"agent", "create_agent", "workflow", "pipeline", "tool", "mcp", "retrieval", "evaluator"}
)
"""Kinds of work inside of a call whose calls are others."""


class CallSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A span, or a step, as far as the calls of its run depend on it."""

    key: Hashable
    """Unique in the run."""
    parent: Hashable = None
    trace: str = ""
    kind: str = ""
    scope: str = ""
    """Instrumentation that made the span."""
    is_own: bool = False
    """Whether an event of the SDK describes it."""
    began: int = 0
    ended: int = 0
    models: tuple[str, ...] = ()
    """Requested model and the model that answered."""
    prompt: int | None = None
    completion: int | None = None
    tokens: int | None = None
    has_cost: bool = False
    is_failed: bool = False
    response_id: str = ""
    agent: str = ""

    @property
    def is_call(self) -> bool:
        """Whether it is a call of a model."""
        return self.kind in DIRECT_KINDS


class Calls(msgspec.Struct, frozen=True):
    """Calls of a run, each once."""

    repeats: Mapping[Hashable, Hashable]
    """Span that is counted for each span that describes the same call, or its failure."""
    agents: Mapping[Hashable, str]
    """Agent of each counted call, as far as it is known."""


def calls_of(spans: Iterable[CallSpan]) -> Calls:
    """Return the calls of a run; the order of the spans does not matter."""
    by_key = {span.key: span for span in spans}
    calls = sorted((span for span in by_key.values() if span.is_call), key=_order)
    found = _CallSearch(by_key)
    if len(calls) > 1:
        found.by_ancestry(calls)
        found.by_point([call for call in calls if call.key not in found.repeats])
        found.by_answer([call for call in calls if call.key not in found.repeats])
        found.by_time([call for call in calls if call.key not in found.repeats])
    repeats = {key: found.counted(key) for key in found.repeats}
    agents = {call.key: found.agents[call.key] for call in calls}
    for key in sorted(repeats, key=lambda each: _order(by_key[each])):
        agents[repeats[key]] = agents[repeats[key]] or agents[key]
    failed = {each.key: found.failed_around(each) for each in by_key.values() if each.is_failed}
    repeats |= {key: found.counted(call) for key, call in failed.items() if call is not None}
    return Calls(
        repeats, {key: agent for key, agent in agents.items() if agent and key not in repeats}
    )


def _order(span: CallSpan) -> tuple[int, int, str]:
    return (span.began, -span.ended, str(span.key))


class _CallSearch:
    """Repeats found so far."""

    def __init__(self, by_key: Mapping[Hashable, CallSpan]) -> None:
        self._by_key = by_key
        self.repeats: dict[Hashable, Hashable] = {}
        self.agents = {span.key: self._agent_of(span) for span in by_key.values() if span.is_call}
        self._answers = {span.key: span.response_id for span in by_key.values() if span.is_call}
        """Id of the answer of each call; a call without one has that of the call around it."""

    def counted(self, key: Hashable) -> Hashable:
        """Return the span that is counted for a call."""
        while (other := self.repeats.get(key)) is not None:
            key = other
        return key

    def by_ancestry(self, calls: Sequence[CallSpan]) -> None:
        """Find calls around others: the innermost with usage counts, or an event of the SDK."""
        inside: dict[Hashable, list[CallSpan]] = defaultdict(list)
        depths: dict[Hashable, int] = {}
        for call in calls:
            around = self._call_around(call)
            seen = {call.key}
            while around is not None and around.key not in seen and len(seen) < MAX_ABOVE:
                seen.add(around.key)
                inside[around.key].append(call)
                around = self._call_around(around)
            depths[call.key] = len(seen)
        outer_first = sorted(calls, key=lambda call: (depths[call.key], _order(call)))
        for outer in reversed(outer_first):
            within = [each for each in inside[outer.key] if each.key not in self.repeats]
            if not within:
                continue
            used = [each for each in within if each.tokens is not None]
            if outer.is_own and (outer.tokens is not None or not used):
                others = [each for each in within if not each.is_own]
                self.repeats |= {each.key: outer.key for each in others}
                within = [each for each in within if each.is_own]
            elif outer.tokens is not None and not used:
                self.repeats |= {each.key: outer.key for each in within}
                within = []
            if within:
                first = (used or within)[0]
                self.repeats[outer.key] = first.key
                if len(within) == 1 and not self._answers[first.key]:
                    self._answers[first.key] = self._answers[outer.key]
            elif not self._answers[outer.key]:
                self._answers[outer.key] = next(
                    filter(None, (self._answers[each.key] for each in inside[outer.key])), ""
                )

    def by_point(self, calls: Sequence[CallSpan]) -> None:
        """Find calls whose usage is logged after their span, at the end of a stream (Logfire)."""
        begun = [each for each in self._by_key.values() if each.is_call and each.tokens is None]
        begun.sort(key=lambda each: (each.ended, _order(each)))
        points = [each for each in calls if each.began == each.ended and each.tokens is not None]
        taken: set[Hashable] = set()
        for point in points[:MAX_ALIKE]:
            for each in reversed(begun[:MAX_ALIKE]):
                if (
                    each.ended <= point.began
                    and self.counted(each.key) not in taken
                    and not each.is_failed
                    and (each.scope, each.trace) == (point.scope, point.trace)
                    and _same_model(each, point)
                ):
                    known = self._by_key[self.counted(each.key)]
                    taken |= {known.key, point.key}
                    if known.tokens is None:
                        self.repeats[known.key] = point.key
                    else:
                        self.repeats[point.key] = known.key
                    break

    def failed_around(self, span: CallSpan) -> Hashable | None:
        """Return the failed call in which a span failed that is no call, like a request over HTTP."""
        if span.is_call or span.is_own or span.kind in _OF_ITS_OWN:
            return None
        around = self._call_around(span)
        return around.key if around is not None and around.is_failed else None

    def by_answer(self, calls: Sequence[CallSpan]) -> None:
        """Find calls with one answer."""
        same: dict[tuple[str, str], list[CallSpan]] = defaultdict(list)
        for call in calls:
            if answer := self._answers[call.key]:
                same[call.trace, answer].append(call)
        for alike in same.values():
            best = min(alike, key=self._preference)
            self.repeats |= {each.key: best.key for each in alike if each is not best}

    def by_time(self, calls: Sequence[CallSpan]) -> None:
        """Find calls within each other in time, of different scopes, with the same usage."""
        same: dict[tuple[object, ...], list[CallSpan]] = defaultdict(list)
        for call in calls:
            alike = (call.trace, call.prompt, call.completion, call.tokens, call.is_failed)
            same[alike].append(call)
        for group in same.values():
            if len(group) > 1 and len({call.scope for call in group}) > 1:
                self._nested_in_time(group[:MAX_ALIKE])

    def _nested_in_time(self, calls: Sequence[CallSpan]) -> None:
        by_length = sorted(calls, key=lambda call: (call.ended - call.began, _order(call)))
        together = {call.key: [call] for call in by_length}
        # A call has one outermost span of each scope; those inside of others count too.
        scopes = {call.key: {call.scope} for call in by_length}
        for key in self.repeats:
            if (counted := self.counted(key)) in scopes:
                scopes[counted].add(self._by_key[key].scope)
        for place, inner in enumerate(by_length):
            for outer in by_length[place + 1 :]:
                mine, others = scopes[inner.key], scopes[outer.key]
                if (
                    outer.began <= inner.began
                    and inner.ended <= outer.ended
                    and mine.isdisjoint(others)
                    and _same_model(inner, outer)
                    and not self._other_answers(inner, outer)
                ):
                    whole = [*together[inner.key], *together[outer.key]]
                    for each in whole:
                        together[each.key], scopes[each.key] = whole, mine | others
        for call in by_length:
            best = min(together[call.key], key=self._preference)
            if best is not call:
                self.repeats[call.key] = best.key

    def _other_answers(self, one: CallSpan, other: CallSpan) -> bool:
        answers = self._answers[one.key], self._answers[other.key]
        return all(answers) and answers[0] != answers[1]

    def _preference(self, call: CallSpan) -> tuple[object, ...]:
        """Return what makes a span the one that is counted: the least is the best."""
        return (
            not call.is_own,
            call.tokens is None,
            not call.has_cost,
            not self.agents[call.key],
            call.ended - call.began,
            _order(call),
        )

    def _call_around(self, call: CallSpan) -> CallSpan | None:
        """Return the next call above, unless a tool or an agent is between them."""
        above = self._by_key.get(call.parent)
        for _ in range(MAX_ABOVE):
            if above is None or above.kind in _OF_ITS_OWN:
                return None
            if above.is_call:
                return above
            above = self._by_key.get(above.parent)
        return None

    def _agent_of(self, call: CallSpan) -> str:
        """Return the agent that a call or the nearest span above it names."""
        span: CallSpan | None = call
        for _ in range(MAX_ABOVE):
            if span is None or span.agent:
                break
            span = self._by_key.get(span.parent)
        return "" if span is None else span.agent


def _same_model(one: CallSpan, other: CallSpan) -> bool:
    """Return whether two calls may be of one model: senders name the alias or the version."""
    mine, others = ({_BESIDE_NAME.sub("", name) for name in call.models} for call in (one, other))
    return mine == others or not mine.isdisjoint(others)
