"""`tracereel import`: send recorded history to a collector, exactly once when it is repeated.

Events and scores are recognised by their id. Spans are looked for before they are sent; a batch that
is sent again while the first one is on its way to the store is recognised by its bytes, which is why
batches depend on the files only.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tracereel.cli import connection
from tracereel.cli.asking import EXIT_NO_ANSWER, failed, with_exit_status
from tracereel.cli.history_files import BadHistoryError, HistoryFile, records_of
from tracereel.cli.langfuse_history import LangfuseHistory
from tracereel.cli.progress import Progress, progress
from tracereel.client.errors import CollectorUnavailableError
from tracereel.client.transport import Transport

BATCH: Final = 500
BATCH_BYTES: Final = 1024 * 1024
TIMEOUT: Final = 60.0
BUSY_SECONDS: Final = 120.0
"""Longest time that a busy collector is asked again for one batch."""
_STORED: Final = (
    "SELECT lower(TraceId), lower(SpanId) FROM otel_spans"
    " WHERE TraceId IN {traces:Array(String)} AND SpanId IN {spans:Array(String)}"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and options."""
    parser.add_argument(
        "format",
        choices=sorted(_FORMATS),
        metavar="FORMAT",
        help="jsonl: events, as `tracereel export` writes them; otlp-json: spans, as the file"
        " exporter of the OpenTelemetry Collector writes them; langfuse: traces, observations and"
        " scores, as Langfuse exports or returns them.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="Files to read.")
    connection.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Send the files and report how many records are new, known or refused."""
    return with_exit_status(args, lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    settings = connection.config_of(args)
    transport = Transport(settings.endpoint, settings.api_key or "", TIMEOUT)
    try:
        total = sum(path.stat().st_size for path in args.files)
        with progress("importing") as bar:
            counts = _FORMATS[args.format](Importing(transport, bar, total), args.files)
    except BadHistoryError as error:
        return failed(args.command, str(error), EXIT_NO_ANSWER)
    except OSError as error:
        message = f"cannot read {error.filename}: {error.strerror}"
        return failed(args.command, message, EXIT_NO_ANSWER)
    print(
        f"imported {counts.new}, {counts.known} were there already, refused {counts.refused},"
        f" left out {counts.left_out}"
    )
    for reason in counts.reasons:
        print(f"tracereel import: {reason}", file=sys.stderr)
    return 1 if counts.refused or counts.left_out else 0


@dataclass(slots=True)
class ImportCounts:
    """Counts of records by outcome, and the first reasons."""

    new: int = 0
    known: int = 0
    refused: int = 0
    left_out: int = 0
    reasons: tuple[str, ...] = ()

    def tell(self, reason: str) -> None:
        """Keep a reason, unless it is known or there are many."""
        if reason and reason not in self.reasons and len(self.reasons) < 10:
            self.reasons += (reason,)


class Importing:
    """Collector that records are sent to, and their counts."""

    def __init__(self, transport: Transport, bar: Progress, total: int) -> None:
        self._transport = transport
        self._bar = bar
        self._total = total
        self.counts = ImportCounts()

    def records(self, files: Iterable[Path]) -> Iterator[Any]:
        """Yield the records of files, and show how much was read."""
        before = 0
        for path in files:
            history = HistoryFile(path)
            for record in records_of(history):
                self._bar.update(before + history.position, self._total)
                yield record
            before += history.position

    def events(self, lines: list[bytes]) -> None:
        """Send events as NDJSON."""
        headers = {"Content-Type": "application/x-ndjson"}
        answer = self._post("/v1/events", b"\n".join(lines), headers, also=(400, 403))
        rejected = answer.get("rejected") or []
        refused = int(answer.get("rejected_count") or len(rejected))
        if error := answer.get("error"):
            refused = len(lines)
            self.counts.tell(str(error["message"]))
        for each in rejected:
            self.counts.tell(str(each["reason"]))
        known = int(answer.get("duplicates") or 0)
        self.counts.refused += refused
        self.counts.known += known
        self.counts.new += len(lines) - refused - known

    def spans(self, groups: list["SpanGroup"]) -> None:
        """Send spans that are not stored yet."""
        stored = self._stored(groups)
        kept = [
            SpanGroup(group.around, [each for each in group.spans if _key(each) not in stored])
            for group in groups
        ]
        count = sum(len(group.spans) for group in kept)
        self.counts.known += sum(len(group.spans) for group in groups) - count
        if not count:
            return
        document = {"resourceSpans": [group.document() for group in kept if group.spans]}
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        answer = self._post("/v1/traces", body, {"Content-Type": "application/json"})
        partial = answer.get("partialSuccess") or {}
        refused, message = int(partial.get("rejectedSpans") or 0), partial.get("errorMessage", "")
        self.counts.refused += refused
        if "not stored again" in message:
            self.counts.known += count - refused
            return
        if refused:
            self.counts.tell(message)
        self.counts.new += count - refused

    def scores(self, scores: list[dict[str, Any]]) -> None:
        """Send scores in Langfuse's form; one with a known id replaces that one."""
        body = json.dumps(scores, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json"}
        answer = self._post("/api/public/scores", body, headers)
        refused = int(answer.get("rejected", 0))
        for each in answer.get("errors", []):
            self.counts.tell(str(each.get("message", "")))
        self.counts.refused += refused
        self.counts.new += len(scores) - refused

    def _stored(self, groups: list["SpanGroup"]) -> set[tuple[str, str]]:
        keys = [_key(each) for group in groups for each in group.spans]
        parameters = {
            "traces": sorted({trace for trace, _ in keys}),
            "spans": sorted({span for _, span in keys}),
        }
        body = json.dumps({"query": _STORED, "parameters": parameters}).encode()
        headers = {"Content-Type": "application/json"}
        answer = self._post("/v1/sql?limit=100000", body, headers)
        return {(trace, span) for trace, span in answer.get("rows", [])}

    def _post(
        self, path: str, body: bytes, headers: dict[str, str], *, also: tuple[int, ...] = ()
    ) -> dict[str, Any]:
        """Send a request until the collector is not busy; return its JSON."""
        ends = time.monotonic() + BUSY_SECONDS
        while True:
            answer = self._transport.ask("POST", path, body=body, headers=headers)
            try:
                if answer.status not in also:
                    self._transport.refuse_failure(answer)
            except CollectorUnavailableError as error:
                if time.monotonic() > ends:
                    raise
                time.sleep(min(error.retry_after or 1.0, 10.0))
                continue
            return self._transport.document(answer.body or b"{}")


@dataclass(frozen=True, slots=True)
class SpanGroup:
    """Spans of one resource and scope, in OTLP's JSON."""

    around: tuple[dict[str, Any], dict[str, Any]]
    """Resource and scope, as OTLP's JSON has them."""
    spans: list[dict[str, Any]]

    def document(self) -> dict[str, Any]:
        """Return the spans as a member of `resourceSpans`."""
        resource, scope = self.around
        return {**resource, "scopeSpans": [{**scope, "spans": self.spans}]}


def _key(span: dict[str, Any]) -> tuple[str, str]:
    """Return the ids of a span as the store has them."""
    names = (("traceId", "trace_id"), ("spanId", "span_id"))
    trace, own = (str(span.get(json_name) or span.get(name) or "") for json_name, name in names)
    return trace.lower(), own.lower()


def _events(importing: Importing, files: list[Path]) -> ImportCounts:
    def lines() -> Iterator[bytes]:
        for record in importing.records(files):
            if not isinstance(record, dict) or "event_type" not in record:
                importing.counts.left_out += 1
                importing.counts.tell("records without event_type are no events")
                continue
            line = json.dumps(record, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")
            if not record.get("event_id"):
                # The same line in the same file is the same event.
                digest = hashlib.blake2b(line, digest_size=16).hexdigest()
                line = json.dumps({**record, "event_id": f"evt_{digest}"}).encode()
            yield line

    for batch in _batches(lines(), len):
        importing.events(batch)
    return importing.counts


def _otlp(importing: Importing, files: list[Path]) -> ImportCounts:
    def groups() -> Iterator[SpanGroup]:
        for record in importing.records(files):
            known = record if isinstance(record, dict) else {}
            resources = known.get("resourceSpans") or known.get("resource_spans")
            if resources is None:
                importing.counts.left_out += 1
                importing.counts.tell(
                    "only resourceSpans are imported: log records and points have no ids, so that"
                    " they would be stored again when this is repeated"
                )
                continue
            yield from _groups_of(importing.counts, resources)

    for batch in _batches(groups(), lambda group: len(json.dumps(group.spans))):
        importing.spans(batch)
    return importing.counts


def _groups_of(counts: ImportCounts, resources: Any) -> Iterator[SpanGroup]:
    for resource in _objects(counts, resources):
        around = {k: v for k, v in resource.items() if k not in {"scopeSpans", "scope_spans"}}
        scopes = resource.get("scopeSpans") or resource.get("scope_spans") or []
        for scope in _objects(counts, scopes):
            spans = _objects(counts, scope.get("spans") or [])
            of_scope = {key: value for key, value in scope.items() if key != "spans"}
            while some := list(islice(spans, BATCH)):
                yield SpanGroup((around, of_scope), some)


def _objects(counts: ImportCounts, values: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list; count and report everything else."""
    for value in values if isinstance(values, list) else [None]:
        if isinstance(value, dict):
            yield value
        else:
            counts.left_out += 1
            counts.tell(
                "what is no object in a list of resourceSpans, scopeSpans or spans was left out"
            )


def _langfuse(importing: Importing, files: list[Path]) -> ImportCounts:
    history = LangfuseHistory(importing.counts.tell)
    for record in importing.records(files):
        history.look_at(record)  # what traces say is needed for their observations
    scores: list[dict[str, Any]] = []

    def groups() -> Iterator[SpanGroup]:
        for record in importing.records(files):
            spans, found = history.converted(record)
            scores.extend(found)
            if spans:
                yield SpanGroup(history.around, spans)

    for batch in _batches(groups(), lambda group: len(json.dumps(group.spans))):
        importing.spans(batch)
    for of_scores in _batches(iter(scores), lambda score: len(json.dumps(score))):
        importing.scores(of_scores)
    importing.counts.left_out += history.left_out
    return importing.counts


def _batches(items: Iterator[Any], size_of: Callable[[Any], int]) -> Iterator[list[Any]]:
    """Yield lists of items of bounded number and size."""
    batch: list[Any] = []
    size = 0
    for item in items:
        own = size_of(item)
        if batch and (len(batch) == BATCH or size + own > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += own
    if batch:
        yield batch


_FORMATS: Final = {"jsonl": _events, "otlp-json": _otlp, "langfuse": _langfuse}
