"""The line from received bytes to a durable receipt, in one place."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tracereel_collector.errors import BadRequestError
from tracereel_collector.ingest.check import EventCheck, Rejection
from tracereel_collector.ingest.events import split_events
from tracereel_collector.ingest.otlp import count_spans
from tracereel_collector.model import Body, Kind, Receipt

LARGE_BODY = 512 * 1024
"""Bodies above this are checked in a thread, so that small ones need not wait behind them."""


class Appends(Protocol):
    """What the line needs of the queue."""

    async def append(self, body: Body, /) -> Receipt:
        """Keep a body; returns once it is durable."""
        ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a request; `rejected` names the first of `refused`."""

    receipt: Receipt
    rejected: list[Rejection]
    refused: int


class EveryEventRejectedError(BadRequestError):
    """Not one event of the body could be accepted."""

    code = "rejected"

    def __init__(self, rejected: list[Rejection], *, single: bool) -> None:
        first = rejected[0].reason
        super().__init__(first if single else f"all events were rejected, the first: {first}")
        self.rejected = rejected


class Accept:
    """Takes checked bodies into the queue."""

    def __init__(
        self, queue: Appends, *, max_event_bytes: int, now_unix_nano: Callable[[], int]
    ) -> None:
        self._queue = queue
        self._check = EventCheck(max_event_bytes=max_event_bytes)
        self._now = now_unix_nano

    async def events(self, data: bytes, *, tenant: str, content_type: str) -> Accepted:
        """Events in any of the three shapes.

        Raises:
            BadRequestError: the body as a whole cannot be read.
            EveryEventRejectedError: it can, but no event in it is acceptable.
        """
        if len(data) > LARGE_BODY:
            body, rejected, single = await asyncio.to_thread(
                self._events_body, data, tenant, content_type
            )
        else:
            body, rejected, single = self._events_body(data, tenant, content_type)
        receipt = await self._queue.append(body)
        if rejected and not body.records:
            raise EveryEventRejectedError(rejected, single=single)
        return Accepted(receipt, rejected, body.rejected)

    def _events_body(
        self, data: bytes, tenant: str, content_type: str
    ) -> tuple[Body, list[Rejection], bool]:
        lines, changed, single = split_events(data, content_type=content_type)
        checked = self._check.check(lines)
        as_it_came = not (changed or checked.changed or single)
        body = Body(
            kind=Kind.EVENTS,
            tenant=tenant,
            received_unix_nano=self._now(),
            data=data.strip() if as_it_came else b"\n".join(checked.lines),
            records=len(checked.lines),
            rejected=checked.refused,
            rejected_reasons=tuple(checked.reasons.items()),
            runs=checked.runs,
        )
        return body, checked.rejected, single

    async def traces(self, data: bytes, *, tenant: str) -> Receipt:
        """An OTLP trace request in protobuf.

        Raises:
            BadRequestError: it is not one.
        """
        spans = (
            await asyncio.to_thread(count_spans, data)
            if len(data) > LARGE_BODY
            else count_spans(data)
        )
        body = Body(
            kind=Kind.SPANS,
            tenant=tenant,
            received_unix_nano=self._now(),
            data=data,
            records=spans,
        )
        return await self._queue.append(body)
