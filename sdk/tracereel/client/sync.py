"""Synchronous client with one method per request to a collector."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack
from urllib.parse import quote

from tracereel.client.errors import (
    InvalidRequestError,
    NotFoundError,
    TraceNotFoundError,
    UnexpectedAnswerError,
)
from tracereel.client.exports import Progress, RowCounter, Table, lines_of, whole_file
from tracereel.client.filters import (
    Moment,
    RunFilters,
    SessionFilters,
    TailFilters,
    Words,
    as_params,
    checked,
)
from tracereel.client.models import (
    Agent,
    AgentPage,
    AskedPage,
    Completeness,
    Conversation,
    Deleted,
    Diff,
    Replay,
    Replayable,
    Run,
    RunAsked,
    RunPage,
    RunState,
    Score,
    ScoreAverage,
    ScorePage,
    Session,
    SessionPage,
    SqlAnswer,
    Step,
    StepAlone,
    StepAnswer,
    Trace,
)
from tracereel.client.streams import EventStream, ServerSentEvent
from tracereel.client.transport import Answer, Found, Params, ResponseStream, Transport, path_of
from tracereel.content import Content

Sort = Literal["started_at", "duration_ms", "cost_usd", "tokens", "events", "errors", "confidence"]


class Client(Transport):
    """Client of a collector; one connection per call, stateless, safe to share between threads.

    Endpoint and key default to `TRACEREEL_ENDPOINT` and `TRACEREEL_API_KEY`. Every method raises a
    subclass of `ClientError` on failure.
    """

    def get(self, path: str, params: Params | None = None) -> Answer:
        """Send a GET request and return the response of any status.

        Redirects are not followed, because they would carry the key.
        """
        return self.ask("GET", path, params)

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
        path = f"/v1/replay/{path_of(trace_id)}"
        return parse_replay(self.fetch_of_traces(path, (trace_id,), params).body, self.endpoint)

    def steps(self, trace_id: str, *, page_size: int = 1000, linked: bool = True) -> Iterator[Step]:
        """Yield all entries of a run's timeline, fetching pages on demand."""

        def fetch(cursor: str | None, size: int) -> Replay:
            return self.replay(trace_id, limit=size, after=cursor, linked=linked)

        return _all_items(fetch, "timeline", page_size=page_size)

    def state(self, trace_id: str, at: Moment | float, *, linked: bool = True) -> RunState:
        """Return the state of a run at a time, or at milliseconds after its start."""
        params = {**as_params({"at": at}), "linked": None if linked else False}
        path = f"/v1/replay/{path_of(trace_id)}"
        return self.parsed(RunState, self.fetch_of_traces(path, (trace_id,), params).body)

    def replay_stream(
        self, trace_id: str, *, speed: float = 1.0, last_event_id: str | None = None
    ) -> EventStream:
        """Stream a run at its original pace, or `speed` times as fast; 0 means no pauses."""
        path = f"/v1/replay/{path_of(trace_id)}"

        def open_stream(seen: str | None) -> ResponseStream:
            try:
                return self.open_events(path, {"stream": 1, "speed": speed}, seen)
            except NotFoundError as error:
                raise TraceNotFoundError(str(error)) from error

        return EventStream(open_stream, last_event_id=last_event_id)

    def tape(self, trace_id: str) -> bytes:
        """Return the tape of a run as NDJSON, for `tracereel.replay`."""
        return self.fetch_of_traces(f"/v1/traces/{path_of(trace_id)}/tape", (trace_id,)).body

    def replayable(self, trace_id: str) -> Replayable:
        """Return whether a run can be re-executed, its past re-executions and branches."""
        return self._of_trace(Replayable, trace_id, "/replayable")

    def trace(
        self,
        trace_id: str,
        *,
        step: str | None = None,
        outline_above: int | None = None,
        budget_bytes: int | None = None,
        budget_tokens: int | None = None,
        linked: bool = True,
        attempts: bool = False,
    ) -> Trace:
        """Return a run as a tree, or the subtree of a step.

        A budget, in bytes or in tokens of a language model, limits it to the most important parts. A run of
        more than `outline_above` steps is returned in `outline`, a sixth of the size. `linked=False` omits
        the runs that this one started. `attempts` includes attempts, retries and fallbacks in which nothing
        was retried or replaced.
        """
        params: Params = {
            "step": step,
            "outline_above": outline_above,
            "budget_bytes": budget_bytes,
            "budget_tokens": budget_tokens,
            "linked": None if linked else False,
            "attempts": "all" if attempts else None,
        }
        return self._of_trace(Trace, trace_id, params=params)

    def step_alone(self, trace_id: str, step: str) -> StepAlone:
        """Return one step with its events and statistics, without reading the whole run."""
        return self._of_trace(StepAlone, trace_id, params={"step": step, "alone": True})

    def content(self, trace_id: str, step: str) -> Content:
        """Return input and output of a step (model, tool or agent) in one form for all senders."""
        path = f"/v1/traces/{path_of(trace_id)}/steps/{path_of(step)}/content"
        answer = self.fetch_of_traces(path, (trace_id,))
        return self.validated(StepAnswer, {"content": self.document(answer.body)}).content

    def completeness(self, trace_id: str) -> Completeness:
        """Return whether all events of a run have arrived, and the missing ones."""
        return self._of_trace(Completeness, trace_id, "/completeness")

    def diff(self, a: str, b: str, *, everything: bool = False) -> Diff:
        """Compare the trees of two runs: steps added, removed and changed from `a` to `b`.

        With `everything`, unchanged steps are listed too.
        """
        path = f"/v1/traces/{path_of(a)}/diff/{path_of(b)}"
        params: Params = {"everything": everything or None}
        return self.parsed(Diff, self.fetch_of_traces(path, (a, b), params).body)

    def _of_trace(
        self, kind: type[Found], trace_id: str, part: str = "", params: Params | None = None
    ) -> Found:
        path = f"/v1/traces/{path_of(trace_id)}{part}"
        return self.parsed(kind, self.fetch_of_traces(path, (trace_id,), params).body)

    def traces(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        sort: Sort = "started_at",
        order: Literal["asc", "desc"] = "desc",
        facets: Words = (),
        histogram: int = 0,
        **filters: Unpack[RunFilters],
    ) -> RunPage:
        """Return a page of runs that match the filters, by default the newest first."""
        params = {
            **as_params(checked(filters, RunFilters)),
            "limit": limit,
            "cursor": cursor,
            "sort": sort,
            "order": order,
            "facets": facets if isinstance(facets, str) else ",".join(facets) or None,
            "histogram": histogram or None,
        }
        return self.fetch_model(RunPage, "/v1/traces", params)

    def find(
        self,
        *,
        most: int | None = None,
        page_size: int = 100,
        sort: Sort = "started_at",
        order: Literal["asc", "desc"] = "desc",
        **filters: Unpack[RunFilters],
    ) -> Iterator[Run]:
        """Yield matching runs (or the first `most`), fetching pages on demand."""

        def fetch(cursor: str | None, size: int) -> RunPage:
            return self.traces(limit=size, cursor=cursor, sort=sort, order=order, **filters)

        return _all_items(fetch, "traces", most=most, page_size=page_size)

    def asked(self, trace_ids: Sequence[str]) -> dict[str, RunAsked]:
        """Return the last question and answer of runs that only spans describe, at most 100."""
        page = self.fetch_model(AskedPage, "/v1/asked", {"trace_id": list(trace_ids)})
        return {run.trace_id: run for run in page.runs}

    def sessions(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        scores: int = 0,
        **filters: Unpack[SessionFilters],
    ) -> SessionPage:
        """Return a page of sessions, the most recently active first, each with its newest `scores`."""
        params = as_params(checked(filters, SessionFilters))
        params |= {"limit": limit, "cursor": cursor, "scores": scores or None}
        return self.fetch_model(SessionPage, "/v1/sessions", params)

    def find_sessions(
        self, *, most: int | None = None, scores: int = 0, **filters: Unpack[SessionFilters]
    ) -> Iterator[Session]:
        """Yield all sessions (or the first `most`), fetching pages on demand."""

        def fetch(cursor: str | None, size: int) -> SessionPage:
            return self.sessions(limit=size, cursor=cursor, scores=scores, **filters)

        return _all_items(fetch, "sessions", most=most, page_size=100)

    def session(self, session_id: str) -> Conversation:
        """Return a session with its turns."""
        return self.fetch_model(Conversation, f"/v1/sessions/{quote(session_id, safe='')}")

    def agents(
        self, *, since: Moment | None = None, until: Moment | None = None, limit: int = 100
    ) -> AgentPage:
        """Return statistics per agent, the busiest first; default is the last hour."""
        params = as_params({"since": since, "until": until, "limit": limit})
        return self.fetch_model(AgentPage, "/v1/agents", params)

    def agent(
        self,
        name: str,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        points: int = 60,
    ) -> Agent:
        """Return statistics of one agent, in total and as a time series."""
        params = as_params({"since": since, "until": until, "points": points})
        return self.fetch_model(Agent, f"/v1/agents/{quote(name, safe='')}", params)

    def tail(
        self,
        *,
        last_event_id: str | None = None,
        reconnect: bool = True,
        on_notice: Callable[[ServerSentEvent], None] | None = None,
        **filters: Unpack[TailFilters],
    ) -> EventStream:
        """Stream newly acknowledged events; reconnects when the connection breaks."""
        params = as_params(checked(filters, TailFilters))
        return EventStream(
            lambda seen: self.open_events("/v1/tail", params, seen),
            last_event_id=last_event_id,
            reconnect=reconnect,
            on_notice=on_notice,
        )

    def score(
        self,
        trace_id: str,
        name: str,
        value: float | bool | str | None = None,
        *,
        comment: str | None = None,
        span_id: str | None = None,
        execution_id: str | None = None,
        agent_name: str | None = None,
        source: str | None = None,
        author: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the field
    ) -> Mapping[str, Any]:
        """Add a score to a run or step; an existing `id` is updated."""
        path_of(trace_id)
        given = {"trace_id": trace_id, "name": name, "value": value, "comment": comment}
        given |= {"span_id": span_id, "execution_id": execution_id, "agent_name": agent_name}
        return self._give_score({**given, "source": source, "author": author, "id": id})

    def score_session(
        self,
        session_id: str,
        name: str,
        value: float | bool | str | None = None,
        *,
        comment: str | None = None,
        source: str | None = None,
        author: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the field
    ) -> Mapping[str, Any]:
        """Add a score to a session; an existing `id` is updated."""
        given = {"session_id": session_id, "name": name, "value": value, "comment": comment}
        return self._give_score({**given, "source": source, "author": author, "id": id})

    def _give_score(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.post_json("/v1/scores", {k: v for k, v in given.items() if v is not None})

    def scores(
        self,
        *,
        trace_id: str | None = None,
        session: str | None = None,
        name: str | None = None,
        agent: str | None = None,
        source: str | None = None,
        author: str | None = None,
        category: str | None = None,
        q: str | None = None,
        min: float | None = None,  # noqa: A002 - the name of the parameter
        max: float | None = None,  # noqa: A002 - the same
        limit: int = 100,
        before: int | None = None,
    ) -> ScorePage:
        """Return a page of scores, the newest first; `q` are words that the comment must contain."""
        params: Params = {
            "trace_id": trace_id,
            "session": session,
            "name": name,
            "agent": agent,
            "source": source,
            "author": author,
            "category": category,
            "q": q,
            "min": min,
            "max": max,
            "limit": limit,
            "before": before,
        }
        return self.fetch_model(ScorePage, "/v1/scores", params)

    def all_scores(
        self, *, trace_id: str | None = None, name: str | None = None, agent: str | None = None
    ) -> Iterator[Score]:
        """Yield all scores, fetching pages on demand."""

        def fetch(before: int | None, size: int) -> ScorePage:
            return self.scores(trace_id=trace_id, name=name, agent=agent, before=before, limit=size)

        return _all_items(fetch, "scores", page_size=1000)

    def score_averages(
        self, *, name: str | None = None, agent: str | None = None
    ) -> tuple[ScoreAverage, ...]:
        """Return averages per agent and score name."""
        document = self.document(
            self.fetch("GET", "/v1/scores/averages", {"name": name, "agent": agent}).body
        )
        return tuple(self.validated(ScoreAverage, each) for each in document.get("averages", ()))

    def delete_trace(self, trace_id: str) -> Deleted:
        """Delete a run permanently, including queued and late events; needs `admin`."""
        return self.parsed(Deleted, self.fetch("DELETE", f"/v1/traces/{path_of(trace_id)}").body)

    def delete_user(self, user_id: str) -> Deleted:
        """Delete all runs of a user permanently; needs `admin`."""
        if not user_id:
            raise InvalidRequestError("user_id: is empty; expected the user to delete")
        return self.parsed(
            Deleted, self.fetch("DELETE", f"/v1/users/{quote(user_id, safe='')}").body
        )

    def export(
        self,
        table: Table = "events",
        *,
        trace_id: str | None = None,
        agent: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        progress: Progress | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table as they arrive."""
        with self.open_export(table, "ndjson", trace_id, agent, since, until) as stream:
            total = RowCounter.of(stream, "ndjson").total
            for done, line in enumerate(lines_of(stream.chunks()), 1):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise UnexpectedAnswerError("a line of the export is not JSON") from error
                yield row
                if progress is not None:
                    progress(done, total)

    def export_to(
        self,
        path: str | Path,
        table: Table = "events",
        *,
        format: Literal["ndjson", "parquet"] = "ndjson",  # noqa: A002 - the name of the parameter
        trace_id: str | None = None,
        agent: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Write a table to a file atomically; return its size in bytes."""
        with (
            self.open_export(table, format, trace_id, agent, since, until) as stream,
            whole_file(path) as file,
        ):
            counter = RowCounter.of(stream, format)
            for chunk in stream.chunks():
                file.write(chunk)
                counter.add(chunk)
                if progress is not None:
                    progress(counter.rows, counter.total)
            if progress is not None:
                progress(counter.end(), counter.total)
        return counter.size

    def open_export(
        self,
        table: str,
        kind: str,
        trace_id: str | None = None,
        agent: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> ResponseStream:
        """Open a stream of an exported table."""
        params = as_params({"table": table, "format": kind, "trace_id": trace_id, "agent": agent})
        params |= as_params({"since": since, "until": until}, renamed={})
        return self.open_stream("/v1/export", params)

    def sql(
        self, query: str, parameters: Mapping[str, Any] | None = None, *, limit: int = 1000
    ) -> SqlAnswer:
        """Run one SELECT on the tenant's rows; `{name:Type}` marks parameters."""
        document = {"query": query, "parameters": dict(parameters or {})}
        params: Params = {"limit": limit, "format": "json"}
        return self.validated(SqlAnswer, self.post_json("/v1/sql", document, params))


def _all_items(
    fetch: Callable[[Any, int], Any], items: str, *, most: int | None = None, page_size: int
) -> Iterator[Any]:
    """Yield the items of all pages, or the first `most`, fetching pages on demand."""
    cursor = None
    left = most
    while left is None or left > 0:
        page = fetch(cursor, page_size if left is None else min(page_size, left))
        found = getattr(page, items)
        yield from found
        cursor = page.next
        left = None if left is None else left - len(found)
        if cursor is None or not found:
            return


def parse_replay(body: bytes, endpoint: str) -> Replay:
    """Parse a response as a replay."""
    try:
        document = json.loads(body)
        timeline = tuple(map(Step.of, document["timeline"]))
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
