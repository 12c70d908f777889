"""Several workers on one queue agree with each other, and dead ones are replaced."""

import json
import os
import shutil
import signal
import socket
import threading
from collections import Counter
from contextlib import suppress

import psutil
import pytest

from tests.support.collector import CollectorProcess, http
from tests.support.conservation import conserved
from tests.support.waiting import wait_until

SCRAPES = 12
"""Enough connections to reach both workers in all but 1 of 2048 cases."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Return a shared collector with two workers for non-destructive tests."""
    running = CollectorProcess(
        tmp_path_factory.mktemp("pair"), arguments=("--workers", "2")
    ).start()
    yield running
    assert running.stop() == 0, running.output
    assert not any("Traceback" in line for line in running.output), running.output


def workers_of(collector):
    found = []
    for child in psutil.Process(collector.process.pid).children():
        with suppress(psutil.Error):
            if "tracereel_collector.processes.worker" in child.cmdline():
                found.append(child)
    return found


def events(trace_id, numbers, **extra):
    return [
        {
            "event_id": f"{trace_id}-{number}",
            "event_type": "custom.numbered",
            "timestamp": "2026-01-23T10:00:00Z",
            "trace_id": trace_id,
            **({"emitter_id": trace_id, "emitter_seq": number} if extra.get("ledger") else {}),
        }
        for number in numbers
    ]


def test_numbers_given_by_several_workers_are_unique_and_without_gaps(pair, trace_id):
    receipts = []

    def send(sender):
        for step in range(10):
            batch = events(f"{trace_id}-{sender}", range(step * 7, step * 7 + 7))
            answer = pair.post_events(batch, wait=False)
            assert answer.status == 200, answer
            receipts.append(answer.json())

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    given = sorted(
        number
        for receipt in receipts
        for number in range(receipt["first_sequence_number"], receipt["first_sequence_number"] + 7)
    )
    assert len(given) == 420
    assert given == list(range(given[0], given[0] + 420))


def test_workers_share_deduplication(pair, trace_id):
    batch = events(trace_id, range(1, 6), ledger=True)

    answers = [pair.post_events(batch, wait=False).json() for _ in range(SCRAPES)]

    assert [answer["accepted"] for answer in answers] == [5] + [0] * (SCRAPES - 1)
    assert all(answer["duplicates"] == 5 for answer in answers[1:])


def test_waiting_for_the_store_works_in_every_worker(pair, trace_id):
    for number in range(SCRAPES):
        answer = pair.post_events(events(trace_id, [number]))
        assert answer.status == 200
        assert len(pair.replay(trace_id).json()["timeline"]) == number + 1


def test_every_worker_serves_the_same_metrics(pair, trace_id):
    assert pair.post_events(events(trace_id, range(3))).status == 200

    def scrape():
        text = http("GET", f"{pair.url}/metrics").body.decode()
        wanted = ("tracereel_records_", "tracereel_insert_seconds_count", "tracereel_http_requests")
        return [
            line
            for line in text.splitlines()
            if line.startswith(wanted) and 'route="/metrics"' not in line
        ]

    told = {tuple(sorted(scrape())) for _ in range(SCRAPES)}

    assert len(told) == 1
    (lines,) = told
    assert any(line.startswith("tracereel_http_requests_total{") for line in lines)
    assert any(line.startswith("tracereel_insert_seconds_count{") for line in lines)


def test_every_worker_is_ready_with_the_store(pair):
    states = [http("GET", f"{pair.url}/readyz").json() for _ in range(SCRAPES)]

    assert all(state["status"] == "ready" for state in states)
    assert all(state["store"]["engine"] == "running" for state in states)


@pytest.mark.fault
def test_a_killed_worker_is_replaced_and_costs_no_acknowledged_event(pair, trace_id):
    acknowledged = []
    stop = threading.Event()

    def send(sender):
        number = 0
        while not stop.is_set():
            number += 1
            batch = events(f"{trace_id}-{sender}", [number], ledger=True)
            with suppress(OSError):
                if pair.post_events(batch, wait=False).status == 200:
                    acknowledged.append(batch[0]["event_id"])
                    continue
            number -= 1  # no response: send the same bytes again

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        before = len(acknowledged)
        wait_until(lambda before=before: len(acknowledged) > before + 20)
        victim = workers_of(pair)[0]
        victim.kill()
        wait_until(
            lambda victim=victim: (
                len(alive := workers_of(pair)) == 2 and victim.pid not in {p.pid for p in alive}
            )
        )
    before = len(acknowledged)
    wait_until(lambda: len(acknowledged) > before + 20)
    stop.set()
    for thread in threads:
        thread.join()

    assert pair.post_events(events(trace_id, [0])).status == 200  # delivered after all the others
    wait_until(lambda: pair.metric("tracereel_records_pending", kind="events") == 0)
    found = Counter(
        entry["details"]["event_id"]
        for sender in range(3)
        for entry in pair.replay(f"{trace_id}-{sender}").json()["timeline"]
    )
    assert set(acknowledged) <= set(found)
    assert set(found.values()) == {1}
    conserved(pair)
    wait_until(lambda: http("GET", f"{pair.url}/readyz").json()["store"]["worker_restarts"] == 2)


@pytest.mark.fault
def test_workers_end_with_their_killed_parent_and_the_next_start_works(new_collector, trace_id):
    first = new_collector(arguments=("--workers", "2")).start()
    receipt = first.post_events(events(trace_id, range(4)), wait=False).json()
    children = psutil.Process(first.process.pid).children(recursive=True)
    assert len(children) == 3

    first.kill()

    _, alive = psutil.wait_procs(children, timeout=15)
    assert alive == []
    again = new_collector(first.data_dir, arguments=("--workers", "2")).start()
    more = again.post_events(events(trace_id, range(4, 6))).json()
    assert more["first_sequence_number"] == receipt["first_sequence_number"] + 4
    assert len(again.replay(trace_id).json()["timeline"]) == 6
    os.kill(again.process.pid, signal.SIGINT)
    assert again.process.wait(30) == 0

    # The queue is lost or replaced by an old copy: the store has the used numbers.
    shutil.rmtree(first.data_dir / "queue")
    renewed = new_collector(first.data_dir).start()
    fresh = renewed.post_events(events(trace_id, [6])).json()
    assert fresh["first_sequence_number"] > more["first_sequence_number"] + 1
    assert renewed.stop() == 0


def test_a_start_waits_for_the_port_until_its_predecessors_workers_have_gone(new_collector):
    """Workers hold the sockets until they notice that their parent was killed."""
    holder = socket.create_server(("127.0.0.1", 0), reuse_port=True)
    port = holder.getsockname()[1]
    started = new_collector(port=port, arguments=("--workers", "2")).start(wait=False)
    release = threading.Timer(2.0, holder.close)
    release.start()

    wait_until(lambda: started.url, timeout=60)

    release.join()
    assert started.post_events(events("trc_port", [1])).status == 200
    assert started.stop() == 0


def test_taken_port_is_a_startup_error_with_several_workers(pair, new_collector):
    port = int(pair.url.rsplit(":", 1)[1])

    second = new_collector(port=port, arguments=("--workers", "2")).start(wait=False)

    assert second.process.wait(30) == 2
    wait_until(lambda: "cannot listen" in json.dumps(second.output))


def test_the_same_request_sent_a_hundred_times_at_once_is_stored_once(pair, trace_id):
    """With and without a ledger; without one, requests are deduplicated by their bytes."""
    for ledger in (True, False):
        name = f"{trace_id}-{ledger}"
        batch, answers = events(name, range(1, 4), ledger=ledger), []

        def send(batch=batch, answers=answers):
            answers.extend(pair.post_events(batch, wait=False).json() for _ in range(10))

        threads = [threading.Thread(target=send) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sum(answer["accepted"] for answer in answers) == 3
        assert sum(answer["duplicates"] for answer in answers) == 297
        pair.post_events(batch)
        assert len(pair.replay(name).json()["timeline"]) == 3
    conserved(pair)


def test_event_reported_by_several_emitters_is_returned_once(pair, trace_id):
    """Ingest cannot detect it (other bytes, another ledger), but reading deduplicates."""
    first = events(trace_id, [1], ledger=True)
    second = [{**events(trace_id, [1])[0], "emitter_id": "another", "emitter_seq": 9}]
    for batch in (first, second, [{**first[0], "emitter_id": "third", "emitter_seq": 1}]):
        assert pair.post_events(batch).json()["accepted"] == 1

    assert len(pair.replay(trace_id).json()["timeline"]) == 1
