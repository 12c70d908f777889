"""Client methods for one run: replay, state, tree, completeness and diff."""

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
from tracereel.client.transport import Params, ResponseStream

_OWN: Final = frozenset({"time", "event", "details"})


class ReadingMethods(Asking):
    """Requests about one run."""

    def replay(
        self,
        trace_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        linked: bool = True,
    ) -> Replay:
        """Return a run in causal order.

        With `limit` it is a page; pass its `next` as `after` for the next one.
        """
        params: Params = {"limit": limit, "after": after, "linked": None if linked else False}
        answer = self.of_trace(f"/v1/replay/{path_of(trace_id)}", trace_id, params)
        return parse_replay(answer.body, self.endpoint)

    def steps(self, trace_id: str, *, page_size: int = 1000, linked: bool = True) -> Iterator[Step]:
        """Yield all entries of a run's timeline, fetching pages on demand."""
        after: str | None = None
        while True:
            page = self.replay(trace_id, limit=page_size, after=after, linked=linked)
            yield from page.timeline
            after = page.next
            if after is None or not page.timeline:
                return

    def state(self, trace_id: str, at: Moment | float, *, linked: bool = True) -> RunState:
        """Return the state of a run at a time, or at milliseconds after its start."""
        params = {**as_params({"at": at}), "linked": None if linked else False}
        answer = self.of_trace(f"/v1/replay/{path_of(trace_id)}", trace_id, params)
        return self.parsed(RunState, answer.body)

    def replay_stream(
        self, trace_id: str, *, speed: float = 1.0, last_event_id: str | None = None
    ) -> EventStream:
        """Stream a run at its original pace, or `speed` times as fast; 0 means no pauses."""
        path = f"/v1/replay/{path_of(trace_id)}"

        def open_stream(seen: str | None) -> ResponseStream:
            try:
                return self.stream(path, {"stream": 1, "speed": speed}, seen)
            except NotFoundError as error:
                raise TraceNotFoundError(str(error)) from error

        return EventStream(open_stream, last_event_id=last_event_id)

    def tape(self, trace_id: str) -> bytes:
        """Return the tape of a run as NDJSON, for `tracereel.replay`."""
        return self.of_trace(f"/v1/traces/{path_of(trace_id)}/tape", trace_id, {}).body

    def replayable(self, trace_id: str) -> Replayable:
        """Return whether a run can be re-executed, its past re-executions and branches."""
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
        """Return a run as a tree, or the subtree of a step.

        A budget, in bytes or in tokens of a language model, limits it to the most important parts. A run of
        more than `outline_above` steps is returned in `outline`, a sixth of the size. `linked=False` omits
        the runs that this one started.
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
        """Return one step with its events and statistics, without reading the whole run."""
        params: Params = {"step": step, "alone": True}
        answer = self.of_trace(f"/v1/traces/{path_of(trace_id)}", trace_id, params)
        return self.parsed(StepAlone, answer.body)

    def completeness(self, trace_id: str) -> Completeness:
        """Return whether all events of a run have arrived, and the missing ones."""
        answer = self.of_trace(f"/v1/traces/{path_of(trace_id)}/completeness", trace_id)
        return self.parsed(Completeness, answer.body)

    def diff(self, a: str, b: str, *, everything: bool = False) -> Diff:
        """Compare the trees of two runs: steps added, removed and changed from `a` to `b`.

        With `everything`, unchanged steps are listed too.
        """
        path = f"/v1/traces/{path_of(a)}/diff/{path_of(b)}"
        params: Params = {"everything": everything or None}
        return self.parsed(Diff, self.of_traces(path, (a, b), params).body)


def parse_replay(body: bytes, endpoint: str) -> Replay:
    """Parse a response as a replay."""
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
