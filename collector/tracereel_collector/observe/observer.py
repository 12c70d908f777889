"""What becomes a span or a log record: requests, batches and log lines, as they end."""

import random
import re
import time
from collections.abc import Iterable, Mapping, MutableMapping
from datetime import datetime
from typing import Any

from tracereel_collector.model import Batch
from tracereel_collector.observe.exporter import SelfExporter
from tracereel_collector.observe.records import OwnLine, OwnSpan
from tracereel_collector.telemetry import SELF_HEADER

_TRACEPARENT = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_NAME = SELF_HEADER.encode()
Headers = Iterable[tuple[bytes, bytes]]


class Observer:
    """Told what has happened; makes records of it for the exporter."""

    def __init__(
        self, exporter: SelfExporter, *, own_id: str, signals: frozenset[str], share: float
    ) -> None:
        self._exporter = exporter
        self._own_id = own_id.encode()
        self._signals = signals
        self._share = share

    def is_own(self, headers: Headers) -> bool:
        """Whether a request is an export of this very collector that has come home."""
        return any(name == _NAME and value == self._own_id for name, value in headers)

    def request_done(
        self, *, method: str, route: str, status: int, seconds: float, headers: Headers
    ) -> None:
        """A request was answered."""
        if not self._wanted() or any(name == _NAME for name, _ in headers):
            return
        trace_id, parent = _parent(headers)
        now = time.time_ns()
        made = OwnSpan(
            name=f"{method} {route}",
            start_unix_nano=now - int(seconds * 1e9),
            end_unix_nano=now,
            attributes={
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
            },
            is_server=True,
            failed=status >= 500 or status == 0,
            **({"trace_id": trace_id} if trace_id else {}),
            parent_span_id=parent,
        )
        self._exporter.offer(made)

    def batch_done(self, batch: Batch, *, stored: int, seconds: float) -> None:
        """A batch has come into the store."""
        if not self._wanted():
            return
        now = time.time_ns()
        self._exporter.offer(
            OwnSpan(
                name=f"deliver {batch.kind}",
                start_unix_nano=now - int(seconds * 1e9),
                end_unix_nano=now,
                attributes={
                    "tracereel.batch": batch.id,
                    "tracereel.kind": str(batch.kind),
                    "tracereel.records": batch.records,
                    "tracereel.records_stored": stored,
                    "tracereel.bytes": batch.size,
                },
                failed=stored < batch.records,
            )
        )

    def said(self, line: Mapping[str, Any]) -> None:
        """A log line was written."""
        if "logs" in self._signals:
            rest: MutableMapping[str, Any] = dict(line)
            event, level = str(rest.pop("event", "")), str(rest.pop("level", "info"))
            self._exporter.offer(
                OwnLine(
                    unix_nano=_unix_nano(rest.pop("timestamp", "")),
                    level=level,
                    event=event,
                    attributes=rest,
                )
            )

    def _wanted(self) -> bool:
        return "traces" in self._signals and (
            self._share >= 1 or random.random() < self._share  # noqa: S311 - no secret
        )


def _parent(headers: Headers) -> tuple[bytes, bytes]:
    for name, value in headers:
        if name == b"traceparent" and (found := _TRACEPARENT.fullmatch(value)):
            trace_id, span_id = (bytes.fromhex(each.decode()) for each in found.groups())
            if any(trace_id) and any(span_id):
                return trace_id, span_id
    return b"", b""


def _unix_nano(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1e9)
    except ValueError:
        return time.time_ns()
