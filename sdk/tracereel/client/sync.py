"""The client: every question that can be put to a collector, one method each."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, Unpack
from urllib.parse import quote

from pydantic import ValidationError

from tracereel.client.errors import (
    InvalidRequestError,
    NotFoundError,
    TraceNotFoundError,
    UnexpectedAnswerError,
)
from tracereel.client.filters import Moment, RunFilters, TailFilters, as_params
from tracereel.client.models import (
    Completeness,
    Model,
    Replay,
    Run,
    RunPage,
    Score,
    ScoreAverage,
    ScorePage,
    SqlAnswer,
    Step,
    Trace,
)
from tracereel.client.streams import EventStream
from tracereel.client.transport import DEFAULT_TIMEOUT, Answer, Params, Stream, Transport

Found = TypeVar("Found", bound=Model)
_TRACE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_OWN: Final = frozenset({"time", "event", "details"})
TAIL_SILENCE: Final = 60.0
"""A live stream says something every few seconds: after so long without a word it is dead."""
Sort = Literal["started_at", "duration_ms", "cost_usd", "tokens", "events", "errors", "confidence"]


class Client:
    """Asks a collector; one connection per call, no state, safe to share between threads.

    Endpoint and key come from `TRACEREEL_ENDPOINT` and `TRACEREEL_API_KEY` unless given.
    Every method raises a `ClientError` of one of its kinds when it does not get its answer.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._transport = Transport(endpoint, api_key, timeout)
        self.endpoint = self._transport.endpoint

    def get(self, path: str, params: Params | None = None) -> Answer:
        """One GET, whatever the status; redirects are not followed (they would carry the key)."""
        return self._transport.ask("GET", path, params=params)

    # One run

    def replay(self, trace_id: str, *, at: Moment | None = None) -> Replay:
        """A run told in causal order; `at` a moment, only what had happened by then."""
        params = as_params({"at": at})
        answer = self._of_trace(f"/v1/replay/{_path(trace_id)}", trace_id, params)
        return parse_replay(answer.body, self.endpoint)

    def replay_stream(
        self, trace_id: str, *, speed: float = 1.0, last_event_id: str | None = None
    ) -> EventStream:
        """A run played again at its own pace, or `speed` times as fast."""
        path = f"/v1/replay/{_path(trace_id)}"

        def open_stream(seen: str | None) -> Stream:
            try:
                return self._stream(path, {"stream": 1, "speed": speed}, seen)
            except NotFoundError as error:
                raise TraceNotFoundError(str(error)) from error

        return EventStream(open_stream, last_event_id=last_event_id)

    def trace(self, trace_id: str, *, linked: bool = True) -> Trace:
        """A run as a tree, with those it started unless `linked` is False."""
        params: Params = {"linked": None if linked else False}
        answer = self._of_trace(f"/v1/traces/{_path(trace_id)}", trace_id, params)
        return self._parsed(Trace, answer.body)

    def completeness(self, trace_id: str) -> Completeness:
        """Whether all of a run has arrived, and what is missing."""
        answer = self._of_trace(f"/v1/traces/{_path(trace_id)}/completeness", trace_id)
        return self._parsed(Completeness, answer.body)

    # Many runs

    def traces(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        sort: Sort = "started_at",
        order: Literal["asc", "desc"] = "desc",
        facets: Sequence[str] = (),
        histogram: int = 0,
        **filters: Unpack[RunFilters],
    ) -> RunPage:
        """A page of the runs that filters choose, the newest first unless told otherwise."""
        params = {
            **as_params(filters),
            "limit": limit,
            "cursor": cursor,
            "sort": sort,
            "order": order,
            "facets": ",".join(facets) or None,
            "histogram": histogram or None,
        }
        return self._parsed(RunPage, self._fetch("GET", "/v1/traces", params).body)

    def find(
        self,
        *,
        most: int | None = None,
        page_size: int = 100,
        sort: Sort = "started_at",
        order: Literal["asc", "desc"] = "desc",
        **filters: Unpack[RunFilters],
    ) -> Iterator[Run]:
        """Every run that filters choose (or the first `most`), page by page as they are wanted."""
        cursor: str | None = None
        left = most
        while left is None or left > 0:
            size = page_size if left is None else min(page_size, left)
            page = self.traces(limit=size, cursor=cursor, sort=sort, order=order, **filters)
            yield from page.traces
            cursor = page.next
            if left is not None:
                left -= len(page.traces)
            if cursor is None or not page.traces:
                return

    # Live

    def tail(
        self,
        *,
        last_event_id: str | None = None,
        reconnect: bool = True,
        on_notice: Callable[[Any], None] | None = None,
        **filters: Unpack[TailFilters],
    ) -> EventStream:
        """What the collector acknowledges, as it does; goes on by itself when the connection breaks."""
        params = as_params(filters)
        return EventStream(
            lambda seen: self._stream("/v1/tail", params, seen),
            last_event_id=last_event_id,
            reconnect=reconnect,
            on_notice=on_notice,
        )

    # Scores

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
        """Say what you think of a run or a step; the same `id` again changes it."""
        _path(trace_id)
        given = {
            "id": id,
            "trace_id": trace_id,
            "name": name,
            "value": value,
            "comment": comment,
            "span_id": span_id,
            "execution_id": execution_id,
            "agent_name": agent_name,
            "source": source,
            "author": author,
        }
        return self._post_json("/v1/scores", {k: v for k, v in given.items() if v is not None})

    def scores(
        self,
        *,
        trace_id: str | None = None,
        name: str | None = None,
        agent: str | None = None,
        source: str | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> ScorePage:
        """A page of scores, the newest first."""
        params: Params = {
            "trace_id": trace_id,
            "name": name,
            "agent": agent,
            "source": source,
            "limit": limit,
            "before": before,
        }
        return self._parsed(ScorePage, self._fetch("GET", "/v1/scores", params).body)

    def all_scores(
        self, *, trace_id: str | None = None, name: str | None = None, agent: str | None = None
    ) -> Iterator[Score]:
        """Every score, page by page."""
        before: int | None = None
        while True:
            page = self.scores(trace_id=trace_id, name=name, agent=agent, before=before, limit=1000)
            yield from page.scores
            before = page.next
            if before is None:
                return

    def score_averages(
        self, *, name: str | None = None, agent: str | None = None
    ) -> tuple[ScoreAverage, ...]:
        """Averages per agent and name of the score."""
        document = self._document(
            self._fetch("GET", "/v1/scores/averages", {"name": name, "agent": agent}).body
        )
        return tuple(self._validated(ScoreAverage, each) for each in document.get("averages", ()))

    # Questions in SQL

    def sql(
        self, query: str, parameters: Mapping[str, Any] | None = None, *, limit: int = 1000
    ) -> SqlAnswer:
        """The answer to one SELECT over the tenant's own rows; `{name:Type}` are parameters."""
        body = json.dumps({"query": query, "parameters": dict(parameters or {})}).encode()
        answer = self._transport.fetch(
            "POST",
            "/v1/sql",
            params={"limit": limit, "format": "json"},
            body=body,
            headers={"Content-Type": "application/json"},
        )
        return self._parsed(SqlAnswer, answer.body)

    # Inside

    def _fetch(self, method: str, path: str, params: Params | None = None) -> Answer:
        return self._transport.fetch(method, path, params=params)

    def _of_trace(self, path: str, trace_id: str, params: Params | None = None) -> Answer:
        try:
            return self._fetch("GET", path, params)
        except NotFoundError as error:
            raise TraceNotFoundError(
                f"no events of trace {trace_id!r} at {self.endpoint}"
                " (a run shows up once it is delivered and stored)"
            ) from error

    def _stream(self, path: str, params: Params, seen: str | None) -> Stream:
        headers = {"Accept": "text/event-stream"}
        if seen:
            headers["Last-Event-ID"] = seen
        return self._transport.stream(
            "GET", path, params=params, headers=headers, silence=TAIL_SILENCE
        )

    def _post_json(self, path: str, document: Any) -> Mapping[str, Any]:
        answer = self._transport.fetch(
            "POST",
            path,
            body=json.dumps(document).encode(),
            headers={"Content-Type": "application/json"},
        )
        return self._document(answer.body)

    def _document(self, body: bytes) -> dict[str, Any]:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise UnexpectedAnswerError(
                f"{self.endpoint} sent something that is not a JSON object;"
                " is it a tracereel collector?"
            )
        return document

    def _parsed(self, kind: type[Found], body: bytes) -> Found:
        return self._validated(kind, self._document(body))

    def _validated(self, kind: type[Found], document: Any) -> Found:
        try:
            return kind.model_validate(document)
        except (ValidationError, RecursionError) as error:
            where = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ()
            raise UnexpectedAnswerError(
                f"{self.endpoint} sent something that is not a {kind.__name__}"
                f" ({'.'.join(map(str, where))}); is it a tracereel collector of this version?"
            ) from error


def _path(trace_id: str) -> str:
    """A trace id as a part of a path."""
    if _TRACE_ID.fullmatch(trace_id) is None:
        raise InvalidRequestError(
            f"trace_id: {trace_id!r} is not one; expected 1 to 128 letters, digits and _ . : -"
        )
    return quote(trace_id, safe="")


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
