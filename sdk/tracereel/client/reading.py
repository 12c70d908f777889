"""One run: told in order, played again, as a tree, checked for gaps, compared."""

import json
from collections.abc import Iterator
from typing import Final

from tracereel.client.base import Asking, path_of
from tracereel.client.errors import NotFoundError, TraceNotFoundError, UnexpectedAnswerError
from tracereel.client.filters import Moment, as_params
from tracereel.client.models import (
    Completeness,
    Diff,
    Replay,
    Replayable,
    RunState,
    Step,
    StepAlone,
    Trace,
)
from tracereel.client.streams import EventStream
from tracereel.client.transport import Params, Stream

_OWN: Final = frozenset({"time", "event", "details"})


class Reading(Asking):
    """Questions about one run."""

    def replay(
        self,
        trace_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        linked: bool = True,
    ) -> Replay:
        """A run told in causal order; with `limit` a page, whose `next` is `after` of the next."""
        params: Params = {"limit": limit, "after": after, "linked": None if linked else False}
        answer = self.of_trace(f"/v1/replay/{path_of(trace_id)}", trace_id, params)
        return parse_replay(answer.body, self.endpoint)

    def steps(self, trace_id: str, *, page_size: int = 1000, linked: bool = True) -> Iterator[Step]:
        """Every entry of a run's timeline, page by page, however long it is."""
        after: str | None = None
        while True:
            page = self.replay(trace_id, limit=page_size, after=after, linked=linked)
            yield from page.timeline
            after = page.next
            if after is None or not page.timeline:
                return

    def state(self, trace_id: str, at: Moment | float, *, linked: bool = True) -> RunState:
        """How a run was at a moment: a time, or milliseconds after its beginning."""
        params = {**as_params({"at": at}), "linked": None if linked else False}
        answer = self.of_trace(f"/v1/replay/{path_of(trace_id)}", trace_id, params)
        return self.parsed(RunState, answer.body)

    def replay_stream(
        self, trace_id: str, *, speed: float = 1.0, last_event_id: str | None = None
    ) -> EventStream:
        """A run played again at its own pace, or `speed` times as fast; 0 is without pauses."""
        path = f"/v1/replay/{path_of(trace_id)}"

        def open_stream(seen: str | None) -> Stream:
            try:
                return self.stream(path, {"stream": 1, "speed": speed}, seen)
            except NotFoundError as error:
                raise TraceNotFoundError(str(error)) from error

        return EventStream(open_stream, last_event_id=last_event_id)

    def tape(self, trace_id: str) -> bytes:
        """What was recorded of a run for its re-execution, as NDJSON; `tracereel.replay` reads it."""
        return self.of_trace(f"/v1/traces/{path_of(trace_id)}/tape", trace_id, {}).body

    def replayable(self, trace_id: str) -> Replayable:
        """Whether a run can be re-executed, what came of it when it was, and its branches."""
        answer = self.of_trace(f"/v1/traces/{path_of(trace_id)}/replayable", trace_id, {})
        return self.parsed(Replayable, answer.body)

    def trace(
        self,
        trace_id: str,
        *,
        step: str | None = None,
        outline_above: int | None = None,
        budget_bytes: int | None = None,
        budget_tokens: int | None = None,
        linked: bool = True,
    ) -> Trace:
        """A run as a tree, or the part below a step.

        With a budget it is what matters most, in so many bytes or tokens of a language model.
        A run of more than `outline_above` steps comes in `outline`: a sixth of the bytes.
        `linked=False` leaves out the runs that this one started.
        """
        params: Params = {
            "step": step,
            "outline_above": outline_above,
            "budget_bytes": budget_bytes,
            "budget_tokens": budget_tokens,
            "linked": None if linked else False,
        }
        answer = self.of_trace(f"/v1/traces/{path_of(trace_id)}", trace_id, params)
        return self.parsed(Trace, answer.body)

    def step_alone(self, trace_id: str, step: str) -> StepAlone:
        """One step with its events and its own figures, without reading a long run around it."""
        params: Params = {"step": step, "alone": True}
        answer = self.of_trace(f"/v1/traces/{path_of(trace_id)}", trace_id, params)
        return self.parsed(StepAlone, answer.body)

    def completeness(self, trace_id: str) -> Completeness:
        """Whether all of a run has arrived, and what is missing."""
        answer = self.of_trace(f"/v1/traces/{path_of(trace_id)}/completeness", trace_id)
        return self.parsed(Completeness, answer.body)

    def diff(self, a: str, b: str, *, everything: bool = False) -> Diff:
        """Two runs aligned on their trees: what is added, removed and changed from `a` to `b`.

        With `everything` the steps that are the same are listed too.
        """
        path = f"/v1/traces/{path_of(a)}/diff/{path_of(b)}"
        params: Params = {"everything": everything or None}
        return self.parsed(Diff, self.of_traces(path, (a, b), params).body)


def parse_replay(body: bytes, endpoint: str) -> Replay:
    """A replay out of an answer.

    Raises:
        UnexpectedAnswerError: it is none.
    """
    try:
        document = json.loads(body)
        timeline = tuple(
            Step(
                str(entry["time"]),
                str(entry["event"]),
                dict(entry["details"]),
                {key: value for key, value in entry.items() if key not in _OWN},
            )
            for entry in document["timeline"]
        )
        following = document.get("next")
        return Replay(
            str(document["trace_id"]),
            timeline,
            dict(document["summary"]),
            body,
            None if following is None else str(following),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UnexpectedAnswerError(
            f"{endpoint} sent something that is not a replay"
            ' (expected {"trace_id", "timeline", "summary"}); is it a tracereel collector?'
        ) from error
