"""Query threads: per-tenant shares; a slot is released when its thread ends."""

import asyncio
import threading
from contextlib import closing

import pytest

from tests.support.waiting import wait_until
from tracereel_collector.errors import ThrottledError
from tracereel_collector.http.dependencies import QueryThreads
from tracereel_collector.runtime.tenant_shares import SharePolicy

SEVERAL = SharePolicy(has_several_tenants=lambda: True)


def test_queries_of_a_busy_tenant_leave_threads_for_others():
    release = threading.Event()

    async def run(threads):
        busy = [asyncio.create_task(threads.run(release.wait, tenant="noisy")) for _ in range(20)]
        try:
            return [await threads.run(threading.get_ident, tenant="quiet") for _ in range(5)]
        finally:
            release.set()
            await asyncio.gather(*busy)

    with closing(QueryThreads(threads=4, shares=SEVERAL)) as threads:
        assert len(asyncio.run(run(threads))) == 5


def test_cancelled_query_keeps_its_slot_until_its_thread_is_done():
    begun, release = threading.Event(), threading.Event()

    def work():
        begun.set()
        release.wait(30)

    async def run(threads):
        first = asyncio.create_task(threads.run(work, tenant="t"))
        await asyncio.to_thread(begun.wait)
        first.cancel()
        with pytest.raises(ThrottledError):
            await threads.run(lambda: None, tenant="t")
        release.set()
        await asyncio.to_thread(wait_until, lambda: threads._slots.used == 0)
        return await threads.run(lambda: "free", tenant="t")

    with closing(QueryThreads(threads=1, wait_seconds=0.01)) as threads:
        assert asyncio.run(run(threads)) == "free"
