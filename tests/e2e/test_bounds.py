"""A running collector at its limits: 429 or a refusal with a reason, never a 500, never data loss."""

import json
import os
import shutil
import socket
import threading
from urllib.parse import urlsplit

import psutil
import pytest

from tests.support.collector import CollectorProcess, http
from tests.support.contract import example
from tests.support.waiting import wait_until
from tracereel_collector.config import Settings

EVENT = example("agent.execution.completed")
NO_STORE = ("--store", "clickhouse://127.0.0.1:9/none")
MIB = 1 << 20
INFLIGHT = 24 * MIB


def lines(count, *, size=0, tag=""):
    return b"\n".join(
        json.dumps({**EVENT, "event_id": f"{tag}{number}", "filler": "x" * size}).encode()
        for number in range(count)
    )


@pytest.fixture(scope="module")
def bounded(tmp_path_factory):
    """Without a store, which ingest does not need, so all bodies stay in the queue."""
    running = CollectorProcess(
        tmp_path_factory.mktemp("bounded"),
        arguments=NO_STORE,
        environ={
            "TRACEREEL_BODY_SECONDS": "1",
            "TRACEREEL_HEADER_SECONDS": "2",
            "TRACEREEL_MAX_INFLIGHT_BYTES": str(INFLIGHT),
            "TRACEREEL_MAX_PENDING_BYTES": str(96 * MIB),
        },
    ).start()
    yield running
    running.stop()


def test_a_body_that_trickles_is_a_408_and_nothing_of_it_is_kept(bounded):
    url = urlsplit(bounded.url)
    with socket.create_connection((url.hostname, url.port), timeout=20) as slow:
        slow.sendall(b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n")
        slow.settimeout(0.1)

        def answer():
            try:
                return slow.recv(1000)
            except TimeoutError:
                slow.sendall(b" ")

        got = wait_until(answer, timeout=20)
        assert got.startswith(b"HTTP/1.1 408")
        slow.settimeout(20)
        while got := slow.recv(1000):  # the rest of the response, then the end
            assert b"HTTP/1.1" not in got
    assert bounded.metric("tracereel_records_received_total", kind="events") == 0


def test_idle_connection_is_closed_after_the_configured_time(bounded):
    url = urlsplit(bounded.url)
    with socket.create_connection((url.hostname, url.port), timeout=9) as silent:
        assert silent.recv(1000).startswith(b"HTTP/1.1 408")
    assert bounded.metric("tracereel_connections_ended_total", reason="header_time") >= 1


def test_memory_is_bounded_however_many_large_bodies_come_at_once(bounded):
    """24 senders of 12 MiB against a limit of 24 MiB: accepted or refused with 429."""
    body = lines(12, size=MIB)
    process = psutil.Process(bounded.process.pid)
    before, peak, stop = process.memory_info().rss, 0, threading.Event()
    answers = []

    def watch():
        nonlocal peak
        while not stop.wait(0.01):
            peak = max(peak, process.memory_info().rss)

    def send():
        answers.append(bounded.post_events([], raw=body, wait=False))

    watching = threading.Thread(target=watch)
    watching.start()
    senders = [threading.Thread(target=send) for _ in range(24)]
    for each in senders:
        each.start()
    for each in senders:
        each.join()
    stop.set()
    watching.join()

    assert {answer.status for answer in answers} <= {200, 429}
    assert any(answer.status == 200 for answer in answers)
    refused = [answer for answer in answers if answer.status == 429]
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    # Bodies in flight plus the first megabyte of each, all once more as lines; one commit and one
    # delivery batch, each with its own limit; and SQLite's cache.
    settings = Settings()
    rest = settings.commit_bytes + settings.batch_bytes + 16 * MIB
    assert peak - before < 2 * (INFLIGHT + len(senders) * MIB) + rest


def test_a_full_queue_is_a_429_and_what_was_acknowledged_stays(bounded):
    before = bounded.metric("tracereel_records_pending", kind="events")
    for sent in range(100):
        answer = bounded.post_events([], raw=lines(4, size=MIB, tag=f"f{sent}-"), wait=False)
        if answer.status != 200:
            break

    assert answer.status == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert "bytes wait for the store" in answer.json()["error"]["message"]
    assert bounded.metric("tracereel_records_pending", kind="events") == before + 4 * sent


def test_too_little_free_disk_is_a_503_until_there_is_room_again(new_collector, tmp_path):
    """A file with real blocks pushes the disk under the limit; without it, events are accepted again."""
    free = shutil.disk_usage(tmp_path).free
    if free < 8 << 30:
        pytest.skip("needs a disk with 8 GiB free")
    running = new_collector(
        arguments=NO_STORE, environ={"TRACEREEL_MIN_FREE_BYTES": str(free - (2 << 30))}
    ).start()
    assert running.post_events([EVENT], wait=False).status == 200

    filler = tmp_path / "filler"
    descriptor = os.open(filler, os.O_CREAT | os.O_WRONLY)
    try:
        os.posix_fallocate(descriptor, 0, 4 << 30)

        def refused():
            answer = running.post_events([{**EVENT, "event_id": "two"}], wait=False)
            return answer.status == 503 and answer

        answer = wait_until(refused)
        assert int(answer.headers["retry-after"]) >= 1
        assert "kept free" in answer.json()["error"]["message"]
        assert http("GET", f"{running.url}/readyz").status == 503
    finally:
        os.close(descriptor)
        filler.unlink()
    wait_until(lambda: running.post_events([{**EVENT, "event_id": "3"}], wait=False).status == 200)


def test_key_over_its_rate_gets_429_with_retry_after(new_collector):
    running = new_collector(
        arguments=NO_STORE,
        environ={
            "TRACEREEL_RATE_RECORDS": "5",
            "TRACEREEL_API_KEYS": "a:the-key-of-tenant-a-1,b:the-key-of-tenant-b-1",
        },
    ).start()

    first = running.post_events(
        [], raw=lines(65), wait=False, headers={"x-api-key": "the-key-of-tenant-a-1"}
    )
    second = running.post_events(
        [], raw=lines(1), wait=False, headers={"x-api-key": "the-key-of-tenant-a-1"}
    )
    other = running.post_events(
        [], raw=lines(1), wait=False, headers={"x-api-key": "the-key-of-tenant-b-1"}
    )

    assert (first.status, second.status, other.status) == (200, 429, 200)
    assert second.json()["error"]["code"] == "rate_limited"
    assert 1 <= int(second.headers["retry-after"]) <= 3
    assert running.metric("tracereel_access_refused_total", reason="rate") == 1
