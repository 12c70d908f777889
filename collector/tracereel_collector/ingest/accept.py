"""The line from received bytes to a durable receipt, in one place."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tracereel_collector.auth.claims import HINT, TenantClaimedError
from tracereel_collector.errors import BadRequestError, ForbiddenError
from tracereel_collector.ingest.check import EventCheck, Rejection
from tracereel_collector.ingest.events import NDJSON, split_events
from tracereel_collector.ingest.heartbeats import check_heartbeats
from tracereel_collector.ingest.otlp import FOREIGN, CheckedRequest, OtlpCheck
from tracereel_collector.ingest.otlp_limits import OtlpLimits
from tracereel_collector.ingest.otlp_schema import Signal
from tracereel_collector.ingest.quick import QuickCheck
from tracereel_collector.ingest.redaction import Redactor
from tracereel_collector.ingest.scores import check_scores
from tracereel_collector.model import Body, Kind, Receipt
from tracereel_collector.telemetry import OtlpMetrics

NDJSON_TYPE = "application/x-ndjson"
LARGE_JSON = 64 * 1024
LARGE_BODY = 512 * 1024
"""Bodies above this are checked in a thread, so that small ones need not wait behind them."""


class Appends(Protocol):
    """What the line needs of the queue."""

    async def append(self, body: Body, /) -> Receipt:
        """Keep a body; returns once it is durable."""
        ...


class Forwards(Protocol):
    """What the line tells of a body that is durable now."""

    def offer(self, kind: Kind, data: bytes, records: int, /, *, passed: str = "") -> None:
        """Take a copy, or let it be; never waits."""
        ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a request; `rejected` names the first of `refused`."""

    receipt: Receipt
    rejected: list[Rejection]
    refused: int


@dataclass(frozen=True, slots=True)
class OtlpAnswer:
    """What an exporter is told: how many records were refused, and why or what else is odd."""

    refused: int
    message: str
    records: int
    """All that the request held."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """What of a request goes into the queue, and what of it does not."""

    body: Body
    rejected: list[Rejection]
    misclaimed: int = 0
    single: bool = False


class EveryEventRejectedError(BadRequestError):
    """Not one event of the body could be accepted."""

    code = "rejected"

    def __init__(
        self, rejected: list[Rejection], *, single: bool, refused: int = 1, misclaimed: int = 0
    ) -> None:
        first = rejected[0].reason
        super().__init__(first if single else f"all events were rejected, the first: {first}")
        self.rejected = rejected
        self.refused = refused
        if refused == misclaimed:  # nothing wrong with the events but whose they say they are
            self.status = ForbiddenError.status


class Accept:
    """Takes checked bodies into the queue."""

    def __init__(
        self,
        queue: Appends,
        *,
        max_event_bytes: int,
        now_unix_nano: Callable[[], int],
        metrics: OtlpMetrics,
        redactor: Redactor | None = None,
        forward: Forwards | None = None,
        otlp_limits: OtlpLimits | None = None,
    ) -> None:
        self._queue = queue
        self._forward = forward
        self._metrics = metrics
        self._check = EventCheck(max_event_bytes=max_event_bytes, redactor=redactor)
        # Asked whether a log record is an event: what it hides is counted when the event is taken.
        # What is redacted is written anew: the quick way is for what enters as it came.
        self._quick = None if redactor else QuickCheck(max_event_bytes=max_event_bytes)
        self._asked = EventCheck(max_event_bytes=max_event_bytes)
        self._otlp = OtlpCheck(
            why_no_event=self._why_no_event, redactor=redactor, limits=otlp_limits
        )
        self._now = now_unix_nano
        self._redactor = redactor

    async def events(self, data: bytes, *, tenant: str, content_type: str) -> Accepted:
        """Events in any of the three shapes.

        Raises:
            BadRequestError: the body as a whole cannot be read.
            EveryEventRejectedError: it can, but no event in it is acceptable.
        """
        if len(data) > LARGE_BODY:
            taken = await asyncio.to_thread(self._take_events, data, tenant, content_type)
        else:
            taken = self._take_events(data, tenant, content_type)
        body = taken.body
        receipt = await self._append(body)
        if taken.rejected and not body.records:
            raise EveryEventRejectedError(
                taken.rejected,
                single=taken.single,
                refused=body.rejected,
                misclaimed=taken.misclaimed,
            )
        return Accepted(receipt, taken.rejected, body.rejected)

    def _take_events(self, data: bytes, tenant: str, content_type: str) -> _Taken:
        if self._quick is not None and content_type in NDJSON:
            whole = self._quick.check(data)
            if whole is not None:
                return _Taken(
                    Body(
                        kind=Kind.EVENTS,
                        tenant=tenant,
                        received_unix_nano=self._now(),
                        data=whole.data,
                        records=whole.records,
                        runs=whole.runs,
                        owners=whole.owners,
                    ),
                    rejected=[],
                )
        return self._sort_events(data, tenant, content_type)

    def _sort_events(self, data: bytes, tenant: str, content_type: str) -> _Taken:
        lines, changed, single = split_events(data, content_type=content_type)
        checked = self._check.check(lines, tenant=tenant)
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
            owners=checked.owners,
        )
        return _Taken(body, checked.rejected, checked.misclaimed, single)

    async def _append(self, body: Body, *, passed: str = "") -> Receipt:
        """Keep a body; what was not known before goes on to whom it is forwarded."""
        receipt = await self._queue.append(body)
        if self._forward is not None and receipt.appended:
            self._forward.offer(body.kind, body.data, body.records, passed=passed)
        return receipt

    async def otlp(
        self, signal: Signal, data: bytes, *, tenant: str, is_json: bool, passed: str = ""
    ) -> OtlpAnswer:
        """An OTLP request of any signal, in protobuf or JSON; `passed` names collectors before us.

        Raises:
            BadRequestError: it is not one.
            TenantClaimedError: all of it says that it belongs to another tenant.
        """
        check = self._otlp.json if is_json else self._otlp.protobuf
        checked = (
            await asyncio.to_thread(check, signal, data, tenant=tenant)
            if len(data) > (LARGE_JSON if is_json else LARGE_BODY)
            else check(signal, data, tenant=tenant)
        )
        refused = checked.refused.total()
        bodies = []
        if checked.records or refused:
            bodies.append(
                Body(
                    kind=signal.kind,
                    tenant=tenant,
                    received_unix_nano=self._now(),
                    data=checked.data,
                    records=checked.records,
                    rejected=refused,
                )
            )
        if checked.events:
            events = b"\n".join(checked.events)
            bodies.append(self._take_events(events, tenant, NDJSON_TYPE).body)
        # Both or an error: a sender that sends again is known by what was kept of the first time.
        await asyncio.gather(*(self._append(body, passed=passed) for body in bodies))
        self._count(signal, checked)
        if refused and refused == checked.refused[FOREIGN] and not checked.kept:
            raise TenantClaimedError(checked.hint, hint=HINT)
        return OtlpAnswer(refused, checked.message(), checked.kept + refused)

    def _count(self, signal: Signal, checked: CheckedRequest) -> None:
        for reason, count in checked.refused.items():
            self._metrics.refused.labels(signal.kind, reason).inc(count)
        for what, count in checked.mended.items():
            self._metrics.mended.labels(signal.kind, what).inc(count)

    def _why_no_event(self, line: bytes, tenant: str) -> str | None:
        rejected = self._asked.check([line], tenant=tenant).rejected
        return rejected[0].reason if rejected else None

    async def heartbeats(self, data: bytes, *, tenant: str) -> Accepted:
        """What emitters say of themselves.

        Raises:
            BadRequestError: the body cannot be read, or nothing in it is acceptable.
        """
        checked = check_heartbeats(data)
        body = Body(
            kind=Kind.HEARTBEATS,
            tenant=tenant,
            received_unix_nano=self._now(),
            data=b"\n".join(checked.lines),
            records=len(checked.lines),
            rejected=len(checked.rejected),
        )
        receipt = await self._queue.append(body)
        if not checked.lines:
            raise BadRequestError(f"no heartbeat is acceptable: {checked.rejected[0].reason}")
        return Accepted(receipt, checked.rejected, len(checked.rejected))

    async def scores(self, data: bytes, *, tenant: str) -> tuple[Accepted, list[str]]:
        """What somebody thinks of runs and steps, and the ids of what was accepted.

        Raises:
            BadRequestError: the body cannot be read, or nothing in it is acceptable.
        """
        now = self._now()
        checked = check_scores(data, now_unix_nano=now, redactor=self._redactor)
        body = Body(
            kind=Kind.SCORES,
            tenant=tenant,
            received_unix_nano=now,
            data=b"\n".join(checked.lines),
            records=len(checked.lines),
            rejected=len(checked.rejected),
        )
        receipt = await self._queue.append(body)
        if not checked.lines:
            raise BadRequestError(f"no score is acceptable: {checked.rejected[0].reason}")
        return Accepted(receipt, checked.rejected, len(checked.rejected)), checked.ids
