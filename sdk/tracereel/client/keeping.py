"""What is added to runs, taken away, and taken along: scores, deletion, export."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal
from urllib.parse import quote

from tracereel.client.base import Asking, path_of
from tracereel.client.errors import InvalidRequestError, UnexpectedAnswerError
from tracereel.client.filters import Moment, as_params
from tracereel.client.models import Deleted, Score, ScoreAverage, ScorePage
from tracereel.client.sse import lines
from tracereel.client.transport import Params, Stream

Progress = Callable[[int, int | None], None]
"""Told how many rows are done (of Parquet: about), and of how many, where that is known."""
Table = Literal["events", "spans", "scores"]


class Keeping(Asking):
    """Scores, deletion, export."""

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
        path_of(trace_id)
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
        return self.post_json("/v1/scores", {k: v for k, v in given.items() if v is not None})

    def scores(
        self,
        *,
        trace_id: str | None = None,
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
        """A page of scores, the newest first; `q` are words of the comment, all of which must be there."""
        params: Params = {
            "trace_id": trace_id,
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
        return self.parsed(ScorePage, self.fetch("GET", "/v1/scores", params).body)

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
        document = self.document(
            self.fetch("GET", "/v1/scores/averages", {"name": name, "agent": agent}).body
        )
        return tuple(self.validated(ScoreAverage, each) for each in document.get("averages", ()))

    def delete_trace(self, trace_id: str) -> Deleted:
        """Delete a run for good: from the tables and the queue, and what comes late; needs `admin`."""
        return self.parsed(Deleted, self.fetch("DELETE", f"/v1/traces/{path_of(trace_id)}").body)

    def delete_user(self, user_id: str) -> Deleted:
        """Delete every run that names a user, for good; needs `admin`."""
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
        """Every row of a table, one by one as they come."""
        with self.open_export(table, "ndjson", trace_id, agent, since, until) as stream:
            total = total_of(stream)
            for done, line in enumerate(lines(stream.chunks()), 1):
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
        """Write a table to a file, which appears when it is whole; its size in bytes."""
        size = 0
        with (
            self.open_export(table, format, trace_id, agent, since, until) as stream,
            whole_file(path) as file,
        ):
            counting = Counting.of(stream, format)
            for chunk in stream.chunks():
                file.write(chunk)
                size += len(chunk)
                counting.add(chunk)
                if progress is not None:
                    progress(counting.rows, counting.total)
            if progress is not None:
                progress(counting.end(), counting.total)
        return size

    def open_export(
        self,
        table: str,
        kind: str,
        trace_id: str | None = None,
        agent: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Stream:
        """The bytes of a table as they come."""
        params = as_params({"table": table, "format": kind, "trace_id": trace_id, "agent": agent})
        params |= {"since": _moment(since), "until": _moment(until)}
        return self.transport.stream("GET", "/v1/export", params=params)


def _moment(value: Moment | None) -> str | None:
    return value if value is None or isinstance(value, str) else value.isoformat()


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write, which appears under its name when all of it is there."""
    target = Path(path)
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def total_of(stream: Stream) -> int | None:
    """How many rows an export says it has."""
    return _whole(stream, "x-total-count")


def _whole(stream: Stream, header: str) -> int | None:
    said = stream.headers.get(header, "")
    return int(said) if said.isascii() and said.isdecimal() else None


class Counting:
    """How many rows of an export have come: by its lines or, of Parquet, about, by its bytes."""

    def __init__(self, total: int | None, expected_bytes: int | None) -> None:
        self.total = total
        self.rows = 0
        self._expected = expected_bytes
        self._bytes = 0

    @classmethod
    def of(cls, stream: Stream, kind: str) -> "Counting":
        """For what an answer announces."""
        estimated = _whole(stream, "x-estimated-bytes") or 1
        return cls(total_of(stream), None if kind == "ndjson" else estimated)

    def add(self, chunk: bytes) -> None:
        """So much more has come."""
        self._bytes += len(chunk)
        if self._expected is None:
            self.rows += chunk.count(b"\n")
        else:
            share = min(1.0, self._bytes / self._expected)
            self.rows = int((self.total or 0) * share)

    def end(self) -> int:
        """All of it has come."""
        if self._expected is not None:
            self.rows = self.total or 0
        return self.rows
