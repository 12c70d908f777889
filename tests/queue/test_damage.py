"""A damaged queue file never stops a start: it is set aside, and what is readable is delivered."""

import pytest

from tracereel_collector.model import Kind
from tracereel_collector.queue import DurableQueue

BIG = {"max_records": 1_000_000, "max_bytes": 1 << 30}
BODIES = 40


def lines_of(queue):
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    return [each.data.strip() for each in queue.bodies_of(batch)] if batch else []


@pytest.fixture
def filled(open_queue, body):
    """A closed queue of forty bodies, each on pages of its own."""
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


def test_a_lost_table_of_contents_costs_the_data_but_not_the_start(filled, path, open_queue, body):
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

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DurableQueue, "_take_over", killed)
        with pytest.raises(KeyboardInterrupt):
            open_queue()

    queue = open_queue()

    assert queue.rescued_bodies > 0
    assert len(lines_of(queue)) == queue.rescued_bodies
    queue.close()
    assert open_queue().damaged_files == []
