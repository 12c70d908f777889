"""Ingest path from received bytes to a durable receipt."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import msgspec

from tracereel_collector.auth.claims import HINT, TenantClaimedError
from tracereel_collector.errors import BadRequestError, ForbiddenError
from tracereel_collector.ingest.check import (
    REJECTIONS_KEPT,
    TENANT_CLAIM,
    EventCheck,
    Rejection,
)
from tracereel_collector.ingest.events import NDJSON, split_events
from tracereel_collector.ingest.heartbeats import check_heartbeats
from tracereel_collector.ingest.objects import count_json
from tracereel_collector.ingest.otlp import FOREIGN, CheckedRequest, OtlpCheck
from tracereel_collector.ingest.otlp_mend import OtlpLimits
from tracereel_collector.ingest.otlp_schema import Signal
from tracereel_collector.ingest.quick import MAX_AT_ONCE, QuickCheck
from tracereel_collector.ingest.redaction import Redactor
from tracereel_collector.ingest.scores import check_scores
from tracereel_collector.ingest.small_bodies import CheckedObjects
from tracereel_collector.ingest.working_memory import WAIT_SECONDS, WorkingMemory
from tracereel_collector.model import Body, Kind, Owner, Receipt, Relay
from tracereel_collector.queue import DurableQueue
from tracereel_collector.queue.sessions import makes_claim, without_claims
from tracereel_collector.runtime.tenant_shares import ONE_TENANT, SharePolicy, TenantShares
from tracereel_collector.telemetry import OtlpMetrics

T = TypeVar("T")

NDJSON_TYPE = "application/x-ndjson"
_DUPLICATES = "{} records were not stored again: the collector has them from an earlier request"
_FOREIGN_USERS = "{} events were refused: their sessions belong to other users"
LARGE_JSON = 64 * 1024
LARGE_BODY = 512 * 1024
WORKING_BYTES = 256 * 1024 * 1024
"""Default memory for checks of large bodies.

Bodies above `LARGE_JSON` or `LARGE_BODY` are checked in a thread, so that they do not delay small ones.
"""


CHECKS = 4
"""Large bodies checked concurrently; tenants with waiting bodies take turns."""
EVENT_BYTES = 250
"""Memory per JSON value while all events of a body are checked at once."""


OwnersOf = Callable[[Body], list[tuple[str | None, Body]]]
"""Returns the parts of a body by the member that owns them; None is this collector."""
Forward = Callable[[Body, str], None]
"""Queues a copy of a body that came through other collectors, or drops it; never blocks."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Result of a request; `rejected` holds the first of `refused` rejections."""

    receipt: Receipt
    rejected: list[Rejection]
    refused: int


@dataclass(frozen=True, slots=True)
class OtlpAnswer:
    """Result of an OTLP request: refused records and a message for the exporter."""

    refused: int
    message: str
    records: int
    """All records of the request."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """Body to append and the rejected records of a request."""

    body: Body
    rejected: list[Rejection]
    misclaimed: int = 0
    single: bool = False


class EveryEventRejectedError(BadRequestError, code="rejected"):
    """All events of the body were rejected."""

    def __init__(
        self, rejected: list[Rejection], *, single: bool, refused: int = 1, misclaimed: int = 0
    ) -> None:
        first = rejected[0].reason
        super().__init__(first if single else f"all events were rejected, the first: {first}")
        self.rejected = rejected
        self.refused = refused
        if refused == misclaimed:  # only the tenant or the user is wrong
            self.status = ForbiddenError.status


class Accept:
    """Validates request bodies and appends them to the queue."""

    def __init__(
        self,
        queue: DurableQueue,
        *,
        max_event_bytes: int,
        now_unix_nano: Callable[[], int],
        metrics: OtlpMetrics,
        redactor: Redactor | None = None,
        forward: Forward | None = None,
        owners: OwnersOf | None = None,
        otlp_limits: OtlpLimits | None = None,
        working_bytes: int = WORKING_BYTES,
        shares: SharePolicy = ONE_TENANT,
    ) -> None:
        limits = otlp_limits or OtlpLimits()
        self._max_objects = limits.objects
        self._memory = WorkingMemory(working_bytes)
        self._checks = TenantShares("body_checks", CHECKS, shares)
        self._queue = queue
        self._forward = forward
        self._owners = owners
        self._metrics = metrics
        self._check = EventCheck(
            max_event_bytes=max_event_bytes, max_objects=limits.objects, redactor=redactor
        )
        # The quick check accepts bodies unchanged, so redaction cannot use it. `_asked` only tests whether
        # a log record is an event; it has no redactor, so that redactions are counted once.
        self._quick = None if redactor else QuickCheck(max_event_bytes=max_event_bytes)
        self._asked = EventCheck(max_event_bytes=max_event_bytes)
        self._otlp = OtlpCheck(why_no_event=self._why_no_event, redactor=redactor, limits=limits)
        self._now = now_unix_nano
        self._redactor = redactor
        # Redaction takes longer than parsing.
        self._large_body = LARGE_JSON if redactor else LARGE_BODY

    async def events(
        self, data: bytes, *, tenant: str, content_type: str, is_awaited: bool = False
    ) -> Accepted:
        """Accept events as an object, an array or NDJSON.

        `is_awaited` keeps the receipts of the owners of relayed events.

        Raises:
            BadRequestError: the body cannot be parsed.
            EveryEventRejectedError: all events were rejected.
        """
        taken = await self._taken(data, tenant, content_type)
        body, rejected = taken.body, taken.rejected
        receipt = await self._append(body, is_awaited=is_awaited)
        refused = body.rejected + receipt.refused
        if receipt.refused:
            rejected = [*rejected, *_foreign(taken, receipt)]
        if rejected and body.records == receipt.refused:
            raise EveryEventRejectedError(
                rejected,
                single=taken.single,
                refused=refused,
                misclaimed=taken.misclaimed + receipt.refused,
            )
        return Accepted(receipt, rejected, refused)

    async def _taken(self, data: bytes, tenant: str, content_type: str) -> _Taken:
        if len(data) <= self._large_body:
            return self._take_events(data, tenant, content_type)
        check = partial(self._take_events, data, tenant, content_type)
        return await self._apart(check, partial(_weight_of_events, data), tenant)

    async def _apart(self, check: Callable[[], T], weight: Callable[[], int], tenant: str) -> T:
        """Check a large body in a thread, once there is memory for it."""
        # Checks hold the GIL: more at once would only take memory.
        async with self._checks.waited(tenant, seconds=WAIT_SECONDS):
            size = await _in_thread(weight)
            async with self._memory.hold(size, tenant=tenant):
                return await _in_thread(check)

    def _take_events(self, data: bytes, tenant: str, content_type: str) -> _Taken:
        checked, single = None, False
        if self._quick is not None and content_type in NDJSON:
            checked = self._quick.check(data)
        if checked is None:
            lines, single = split_events(
                data, content_type=content_type, max_objects=self._max_objects
            )
            checked = self._check.check(lines, tenant=tenant)
        body = Body(
            kind=Kind.EVENTS,
            tenant=tenant,
            received_unix_nano=self._now(),
            data=b"\n".join(checked.lines),
            records=checked.records,
            rejected=checked.reasons.total(),
            rejected_reasons=tuple(checked.reasons.items()),
            runs=checked.runs,
            owners=checked.owners,
        )
        return _Taken(body, checked.rejected, checked.reasons[TENANT_CLAIM], single)

    async def _append(
        self, body: Body, *, passed: str = "", is_awaited: bool = False, is_copied: bool = True
    ) -> Receipt:
        """Append a body, or relay the parts of it that other members own."""
        if self._owners is None or not body.records:
            return await self._append_own(body, passed, is_copied)
        receipts: list[Awaitable[Receipt]] = []
        parts = self._owners(body)
        if body.rejected and (len(parts) > 1 or parts[0][0] is not None):
            # The owners count only what they get.
            rejected = replace(body, data=b"", records=0, runs=(), owners=())
            receipts.append(self._append_own(rejected, passed))
        for owner, part in parts:
            if len(parts) > 1 or owner is not None:
                part = replace(part, rejected=0, rejected_reasons=())
            if owner is None:
                receipts.append(self._append_own(part, passed, is_copied))
            else:
                relayed = self._queue.relay(part, owner=owner, passed=passed, is_awaited=is_awaited)
                receipts.append(asyncio.wrap_future(relayed))
        # All parts or an error: after a partial failure, the retry is deduplicated.
        return merged(await asyncio.gather(*receipts))

    async def _append_own(self, body: Body, passed: str, is_copied: bool = True) -> Receipt:
        """Append a body; forward it unless all of it is duplicate."""
        receipt = await asyncio.wrap_future(self._queue.append(body))
        if is_copied:
            self._copy(body, receipt, passed)
        return receipt

    async def _append_described(self, checked: CheckedRequest, tenant: str) -> Receipt:
        """Append the spans that log records describe; only the records are forwarded.

        Duplicates are those of the records, so they are counted once.
        """
        body = Body(
            kind=Kind.SPANS,
            tenant=tenant,
            received_unix_nano=self._now(),
            data=checked.spans,
            records=checked.span_count,
        )
        receipt = await self._append(body, is_copied=False)
        return replace(receipt, duplicates=0)

    def _copy(self, body: Body, receipt: Receipt, passed: str) -> None:
        if self._forward is not None and receipt.appended:
            self._forward(
                without_claims(body, receipt.foreign) if receipt.foreign else body, passed
            )

    async def relayed(self, source: str, relays: Sequence[Relay]) -> list[Receipt | None]:
        """Accept bodies that another member has acknowledged; None for those taken before."""
        receipts = await asyncio.wrap_future(self._queue.take(source, relays))
        for relay, receipt in zip(relays, receipts, strict=True):
            if receipt is not None:
                self._copy(relay.body, receipt, relay.passed)
        return receipts

    async def otlp(
        self, signal: Signal, data: bytes, *, tenant: str, is_json: bool, passed: str = ""
    ) -> OtlpAnswer:
        """Accept an OTLP request in protobuf or JSON; `passed` names the collectors before this one.

        Raises:
            BadRequestError: the body is not a valid request.
            TenantClaimedError: all resources name another tenant.
        """
        check = self._otlp.json if is_json else self._otlp.protobuf
        if len(data) > (LARGE_JSON if is_json else self._large_body):
            weight = partial(self._otlp.weight, signal, data, is_json=is_json)
            checked = await self._apart(partial(check, signal, data, tenant=tenant), weight, tenant)
        else:
            checked = check(signal, data, tenant=tenant)
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
            bodies.append((await self._taken(events, tenant, NDJSON_TYPE)).body)
        # All appends or an error: after a partial failure, the retry is deduplicated.
        appends = [self._append(body, passed=passed) for body in bodies]
        if checked.span_count:
            appends.append(self._append_described(checked, tenant))
        receipts = await asyncio.gather(*appends)
        self._count(signal, checked)
        if refused and refused == checked.refused[FOREIGN] and not checked.kept:
            raise TenantClaimedError(checked.hint, hint=HINT)
        message = checked.message()
        if foreign := sum(receipt.refused for receipt in receipts):
            refused += foreign
            message = "; ".join(filter(None, (_FOREIGN_USERS.format(foreign), message)))
        if duplicates := sum(receipt.duplicates for receipt in receipts):
            message = "; ".join(filter(None, (_DUPLICATES.format(duplicates), message)))
        return OtlpAnswer(refused, message, checked.kept + checked.refused.total())

    def _count(self, signal: Signal, checked: CheckedRequest) -> None:
        for reason, count in checked.refused.items():
            self._metrics.refused.labels(signal.kind, reason).inc(count)
        for what, count in checked.mended.items():
            self._metrics.mended.labels(signal.kind, what).inc(count)

    def _why_no_event(self, line: bytes, tenant: str) -> str | None:
        rejected = self._asked.check([line], tenant=tenant).rejected
        return rejected[0].reason if rejected else None

    async def heartbeats(self, data: bytes, *, tenant: str) -> Accepted:
        """Accept heartbeats of emitters.

        Raises:
            BadRequestError: the body cannot be parsed, or all heartbeats were rejected.
        """
        return await self._append_small(
            Kind.HEARTBEATS, check_heartbeats(data), tenant, self._now()
        )

    async def scores(self, data: bytes, *, tenant: str) -> tuple[Accepted, list[str]]:
        """Accept scores; also return the ids of the accepted ones.

        Raises:
            BadRequestError: the body cannot be parsed, or all scores were rejected.
        """
        now = self._now()
        checked = check_scores(data, now_unix_nano=now, redactor=self._redactor)
        return await self._append_small(Kind.SCORES, checked, tenant, now), checked.ids

    async def _append_small(
        self, kind: Kind, checked: CheckedObjects, tenant: str, now: int
    ) -> Accepted:
        body = Body(
            kind=kind,
            tenant=tenant,
            received_unix_nano=now,
            data=b"\n".join(checked.lines),
            records=len(checked.lines),
            rejected=len(checked.rejected),
        )
        receipt = await self._append(body)
        if not checked.lines:
            name = kind.removesuffix("s")
            raise BadRequestError(f"no {name} is acceptable: {checked.rejected[0].reason}")
        return Accepted(receipt, checked.rejected, body.rejected)


def merged(receipts: Sequence[Receipt]) -> Receipt:
    """Return one receipt for the parts of a body; numbers only if all of it is in this queue."""
    if len(receipts) == 1:
        return receipts[0]
    relayed = tuple(each for receipt in receipts for each in receipt.relayed)
    ids = [receipt.body_id for receipt in receipts if receipt.body_id is not None]
    return Receipt(
        appended=sum(receipt.appended for receipt in receipts),
        duplicates=sum(receipt.duplicates for receipt in receipts),
        first_sequence_number=None,
        body_id=max(ids, default=None),
        foreign=frozenset[Owner]().union(*(receipt.foreign for receipt in receipts)),
        refused=sum(receipt.refused for receipt in receipts),
        relayed=relayed,
    )


def _foreign(taken: _Taken, receipt: Receipt) -> Iterator[Rejection]:
    """Yield the rejections of events whose session belongs to another user, as many as are listed."""
    before = {each.index for each in taken.rejected}
    if len(before) < taken.body.rejected:
        return  # the positions in the request are not known
    indexes = (index for index in itertools.count() if index not in before)
    room = REJECTIONS_KEPT - len(before)
    for line, index in zip(taken.body.data.split(b"\n"), indexes, strict=False):
        if room and makes_claim(line, receipt.foreign):
            room -= 1
            event = msgspec.json.decode(line)
            reason = f"session_id: {event['session_id'][:80]!r} belongs to another user"
            yield Rejection(index, event.get("event_id"), reason)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run work in a thread; a cancelled caller still waits for its end.

    The thread uses the body, whose memory the caller has reserved.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    finally:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        # Break the cycle of error, traceback and frame, which would keep the body in memory.
        del running


def _weight_of_events(data: bytes) -> int:
    """Estimate the memory of a check in bytes."""
    return 3 * len(data) + EVENT_BYTES * min(MAX_AT_ONCE, count_json(data, MAX_AT_ONCE))
