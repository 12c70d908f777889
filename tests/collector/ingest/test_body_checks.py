"""Large bodies are checked in threads: tenants take turns, cancelled requests wait for theirs."""

import asyncio
import threading
import time

import pytest
from prometheus_client import CollectorRegistry

from tracereel_collector.ingest.accept import CHECKS, LARGE_BODY, Accept
from tracereel_collector.ingest.otlp import CheckedRequest
from tracereel_collector.ingest.otlp_schema import TRACES
from tracereel_collector.runtime.tenant_shares import SharePolicy
from tracereel_collector.telemetry import OtlpMetrics

BODY = bytes(LARGE_BODY + 1)
SEVERAL = SharePolicy(has_several_tenants=lambda: True)


def accept_with(check):
    accept = Accept(
        queue=None,
        max_event_bytes=1 << 20,
        now_unix_nano=time.time_ns,
        metrics=OtlpMetrics.register(CollectorRegistry()),
        shares=SEVERAL,
    )

    def checked(_signal, _data, *, tenant):
        check(tenant)
        return CheckedRequest(data=b"", records=0)

    accept._otlp.protobuf = checked
    return accept


def send(accept, tenant):
    return asyncio.create_task(accept.otlp(TRACES, BODY, tenant=tenant, is_json=False))


def test_a_cancelled_request_keeps_its_room_until_its_thread_has_ended():
    began, may_end = threading.Event(), threading.Event()

    def check(_tenant):
        began.set()
        assert may_end.wait(30)

    async def run():
        sent = send(accept_with(check), "t")
        assert await asyncio.to_thread(began.wait, 30)
        sent.cancel()
        await asyncio.wait({sent}, timeout=0.2)
        was_done = sent.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await sent
        return was_done

    assert asyncio.run(run()) is False


def test_a_body_does_not_wait_for_all_bodies_of_another_tenant():
    order = []

    def check(tenant):
        order.append(tenant)
        time.sleep(0.02)

    async def run():
        accept = accept_with(check)
        noisy = [send(accept, "noisy") for _ in range(60)]
        await asyncio.sleep(0)
        await asyncio.gather(*noisy, send(accept, "quiet"))

    asyncio.run(run())

    assert order.index("quiet") <= 2 * CHECKS
