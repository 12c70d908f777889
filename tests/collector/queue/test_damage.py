"""A damaged queue file never prevents a start: it is set aside and readable bodies are rescued."""

import os
import random

import pytest

from tests.support.conservation import conserved_queue
from tracereel_collector.errors import StartupError
from tracereel_collector.model import Kind, Quarantined
from tracereel_collector.queue import queue as queue_module

BIG = {"max_records": 1_000_000, "max_bytes": 1 << 30}
BODIES = 40
ROUNDS = int(os.environ.get("TRACEREEL_DAMAGE_ROUNDS", "25"))


def lines_of(queue):
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    return [each.data.strip() for each in queue.bodies_of(batch)] if batch else []


@pytest.fixture
def filled(open_queue, body):
    """Return a closed queue of forty bodies, each on its own pages."""
    queue = open_queue()
    for number in range(BODIES):
        queue.append(body(b"%03d" % number * 8000)).result(10)
    last = queue.append(body(b"end", runs=[("e", 1, 1)])).result(10)
    queue.close()
    return last


def test_a_file_of_garbage_is_set_aside_and_a_new_queue_started(path, open_queue, body):
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database at all" * 1000)

    queue = open_queue()

    assert queue.damaged_files[0].read_bytes().startswith(b"not a database")
    assert queue.append(body()).result(10).appended == 1


def test_an_empty_file_is_a_new_queue(path, open_queue, body):
    path.parent.mkdir(parents=True)
    path.touch()

    assert open_queue().append(body()).result(10).first_sequence_number == 1


def test_bodies_before_and_after_a_bad_page_are_rescued(filled, path, open_queue):
    data = bytearray(path.read_bytes())
    page = data.index(b"025" * 5000) // 16384 * 16384
    data[page : page + 64] = b"\xff" * 64
    path.write_bytes(data)

    queue = open_queue()

    assert len(queue.damaged_files) == 1
    rescued = {line[:3] for line in lines_of(queue)}
    assert rescued == {b"%03d" % number for number in range(BODIES) if number != 25} | {b"end"}
    counts = conserved_queue(queue, pending=BODIES)
    assert (counts["received"], counts["quarantined"], counts["damaged"]) == (BODIES + 1, 1, 1)


def test_lost_sqlite_schema_does_not_prevent_the_start(filled, path, open_queue, body):
    data = bytearray(path.read_bytes())
    data[100:108] = b"\xff" * 8
    path.write_bytes(data)

    queue = open_queue()

    assert len(queue.damaged_files) == 1
    assert queue.append(body(b"new")).result(10).appended == 1


def test_a_truncated_file_gives_back_what_it_still_holds(filled, path, open_queue):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])

    queue = open_queue()

    rescued = lines_of(queue)
    assert len(queue.damaged_files) == 1
    assert 0 < len(rescued) < BODIES + 1
    assert all(line in (b"end", line[:3] * 8000) for line in rescued)


def test_numbers_are_not_used_again_after_a_rescue(filled, path, open_queue, body):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])

    number = open_queue().append(body(b"after")).result(10).first_sequence_number

    assert number > filled.first_sequence_number


def test_a_rescue_that_was_interrupted_is_done_at_the_next_start(
    filled, path, open_queue, monkeypatch
):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(queue_module, "take_over", killed)
        with pytest.raises(KeyboardInterrupt):
            open_queue()

    queue = open_queue()

    assert queue.rescued_bodies > 0
    assert len(lines_of(queue)) == queue.rescued_bodies
    queue.close()
    assert open_queue().damaged_files == []


def test_counters_and_quarantine_survive_a_rescue(open_queue, path, body):
    queue = open_queue()
    queue.append(body(b"a", b"b", rejected=3)).result(10)
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    (kept,) = queue.bodies_of(batch)
    poison = Quarantined(
        kind=Kind.EVENTS,
        tenant="default",
        sequence_number=2,
        records=1,
        reason="r",
        data=b"b",
        received_unix_nano=kept.received_unix_nano,
    )
    queue.done(batch, stored=1, quarantined=[poison])
    for number in range(BODIES):
        queue.append(body(b"%03d" % number * 8000)).result(10)
    before = queue.counters()
    queue.close()
    data = bytearray(path.read_bytes())
    page = data.index(b"025" * 5000) // 16384 * 16384
    data[page : page + 64] = b"\xff" * 64
    path.write_bytes(data)

    queue = open_queue()

    (entry,) = queue.quarantine.entries(tenant="default")
    assert (entry.reason, entry.sequence_number) == ("r", 2)
    counts = conserved_queue(queue, pending=BODIES - 1)
    assert counts["damaged"] == 1
    assert counts["quarantined"] == 2
    same = ("received", "rejected", "appended", "stored", "rejected:other")
    assert {name: counts[name] for name in same} == {name: before[name, "events"] for name in same}


def damaged(rnd, sound):
    """Bytes are flipped, zeroed, overwritten or truncated at random places of every page."""
    data = bytearray(sound)
    # Every other time in the file header: it is small and matters most.
    at = rnd.randrange(len(data) if rnd.random() < 0.5 else 100)
    length = rnd.choice([1, 8, 512, 16384])
    noise = rnd.choice([bytes(length), rnd.randbytes(length), b"\xff" * length])
    data[at : at + length] = noise[: len(data) - at]
    if rnd.random() < 0.2:
        del data[rnd.randrange(len(data)) :]
    return data


def test_wherever_the_file_is_damaged_it_starts_and_gives_back_only_what_is_sound(
    filled, path, open_queue, body
):
    sound = path.read_bytes()
    seed = random.SystemRandom().randrange(10**6)
    rnd = random.Random(seed)
    rescued = 0
    for _ in range(ROUNDS):
        for old in path.parent.glob(f"{path.name}*"):
            old.unlink()
        path.write_bytes(damaged(rnd, sound))

        queue = open_queue()

        found = []
        while batch := queue.next_batch(Kind.EVENTS, **BIG):
            bodies = queue.bodies_of(batch)
            found += [each.data.strip() for each in bodies]
            queue.done(batch, stored=sum(each.records for each in bodies), quarantined=[])
        assert all(line in (b"end", line[:3] * 8000) for line in found), seed
        assert len(found) == len(set(found)), seed
        conserved_queue(queue)
        assert queue.append(body(b"after")).result(10).appended == 1
        queue.close()
        rescued += len(found)
    assert rescued > ROUNDS


def test_unrelated_errors_do_not_set_the_file_aside(filled, path, open_queue):
    path.parent.joinpath("queue.sqlite-wal").mkdir()  # SQLite cannot open its WAL

    with pytest.raises(StartupError, match="cannot"):
        open_queue()

    assert [file.name for file in path.parent.glob("*damaged*")] == []
    assert path.exists()
