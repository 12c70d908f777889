"""Client methods for scores, deletion and export."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal
from urllib.parse import quote

from tracereel.client.base import Asking, path_of
from tracereel.client.errors import InvalidRequestError, UnexpectedAnswerError
from tracereel.client.filters import Moment, as_params
from tracereel.client.models import Deleted, Score, ScoreAverage, ScorePage
from tracereel.client.transport import Params, ResponseStream

Progress = Callable[[int, int | None], None]
"""Callback with the rows done (estimated for Parquet) and the total, if known."""
Table = Literal["events", "spans", "scores"]
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an exported row, as in the collector."""


class Keeping(Asking):
    """Requests for scores, deletion and export."""

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
        """Return a page of scores, the newest first; `q` are words that the comment must contain."""
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
        """Yield all scores, fetching pages on demand."""
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
            total = total_of(stream)
            for done, line in enumerate(_lines(stream.chunks()), 1):
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
    ) -> ResponseStream:
        """Open a stream of an exported table."""
        params = as_params({"table": table, "format": kind, "trace_id": trace_id, "agent": agent})
        params |= {"since": _moment(since), "until": _moment(until)}
        return self.transport.stream("GET", "/v1/export", params=params)


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of chunked NDJSON; the last one may have no newline."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*parts, line)).decode("utf-8", "replace")
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > MAX_LINE_BYTES:
            raise UnexpectedAnswerError(f"a line of more than {MAX_LINE_BYTES} bytes came")
    if size:
        yield b"".join(parts).decode("utf-8", "replace")


def _moment(value: Moment | None) -> str | None:
    return value if value is None or isinstance(value, str) else value.isoformat()


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when complete."""
    target = Path(path)
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def total_of(stream: ResponseStream) -> int | None:
    """Return the number of rows of an export, or `None` if unknown."""
    return _whole(stream, "x-total-count")


def _whole(stream: ResponseStream, header: str) -> int | None:
    said = stream.headers.get(header, "")
    return int(said) if said.isascii() and said.isdecimal() else None


class Counting:
    """Row counter of an export: exact by lines, or estimated by bytes for Parquet."""

    def __init__(self, total: int | None, expected_bytes: int | None) -> None:
        self.total = total
        self.rows = 0
        self._expected = expected_bytes
        self.size = 0
        self._in_line = False

    @classmethod
    def of(cls, stream: ResponseStream, kind: str) -> "Counting":
        """Create a counter from the headers of a response."""
        estimated = _whole(stream, "x-estimated-bytes") or 1
        return cls(total_of(stream), None if kind == "ndjson" else estimated)

    def add(self, chunk: bytes) -> None:
        """Count a received chunk."""
        self.size += len(chunk)
        if self._expected is None:
            self.rows += chunk.count(b"\n")
            self._in_line = not chunk.endswith(b"\n") if chunk else self._in_line
        else:
            share = min(1.0, self.size / self._expected)
            self.rows = int((self.total or 0) * share)

    def end(self) -> int:
        """Return the final number of rows."""
        if self._expected is not None:
            self.rows = self.total or 0
        return self.rows + self._in_line
