"""A refused batch is bisected until only the poison records are left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.deliver.poison import insert_in_parts
from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.store.clickhouse import BadDataError


def bodies_of(sizes, kind=Kind.EVENTS):
    number, bodies = 1, []
    for index, size in enumerate(sizes):
        lines = [str(number + step).encode() for step in range(size)]
        bodies.append(
            QueuedBody(
                id=index,
                kind=kind,
                tenant="default",
                first_sequence_number=number,
                records=size,
                received_unix_nano=1,
                data=b"\n".join(lines),
            )
        )
        number += size
    return bodies


class PickyStore:
    """Store that keeps lines by token, refuses poisoned lines, and can fail after a while."""

    def __init__(self, poison):
        self.poison = poison
        self.kept = {}

    def insert(self, bodies, token):
        lines = [line for body in bodies for line in body.data.split(b"\n")]
        if any(int(line) in self.poison for line in lines):
            raise BadDataError("this line cannot be stored")
        self.kept.setdefault(token, lines)

    @property
    def lines(self):
        return [int(line) for lines in self.kept.values() for line in lines]


batches = st.lists(st.integers(1, 7), min_size=1, max_size=6).flatmap(
    lambda sizes: st.tuples(st.just(sizes), st.sets(st.integers(1, sum(sizes)), max_size=4))
)


@given(batches)
def test_everything_but_the_poison_is_stored_once_and_in_order(batch):
    sizes, poison = batch
    store = PickyStore(poison)

    refused = insert_in_parts(bodies_of(sizes), token="t", insert=store.insert)

    assert store.lines == [n for n in range(1, sum(sizes) + 1) if n not in poison]
    assert [each.sequence_number for each in refused] == sorted(poison)
    assert [each.data for each in refused] == [str(n).encode() for n in sorted(poison)]


@given(batches)
def test_doing_it_again_after_a_crash_stores_nothing_twice(batch):
    sizes, poison = batch
    store = PickyStore(poison)
    insert_in_parts(bodies_of(sizes), token="t", insert=store.insert)
    once = store.lines

    insert_in_parts(bodies_of(sizes), token="t", insert=store.insert)

    assert store.lines == once


def test_store_outage_is_not_treated_as_poison():
    def insert(_bodies, _token):
        raise StoreUnavailableError("away")

    with pytest.raises(StoreUnavailableError):
        insert_in_parts(bodies_of([2, 2]), token="t", insert=insert)


def test_a_span_body_is_quarantined_whole():
    def insert(bodies, _token):
        if any(body.id == 1 for body in bodies):
            raise BadDataError("corrupt")

    (refused,) = insert_in_parts(bodies_of([2, 3, 2], kind=Kind.SPANS), token="t", insert=insert)

    assert (refused.sequence_number, refused.records) == (3, 3)
