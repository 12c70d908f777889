"""Who owns what: the same everywhere, balanced, and stable when members come and go."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.group.ownership import Ownership
from tracereel_collector.model import Body, EmitterRun, Kind

NAMES = ("a", "b", "c", "d")
KEYS = [("tenant", f"emitter-{number}") for number in range(4_000)]
names = st.lists(st.text("abcdefghij", min_size=1, max_size=4), min_size=1, max_size=8, unique=True)


def body(runs, *, kind=Kind.EVENTS):
    count = sum(run.count for run in runs)
    return Body(
        kind=kind,
        tenant="tenant",
        received_unix_nano=1,
        data=b"\n".join(b"line %d" % number for number in range(count)),
        records=count,
        runs=tuple(runs),
        rejected=3,
        rejected_reasons=(("other", 3),),
    )


@given(names, st.binary(max_size=40), st.randoms())
def test_every_member_finds_the_same_owner(members, key, rnd):
    shuffled = rnd.sample(members, len(members))
    owner = Ownership(members).of_key(key)
    assert owner == Ownership(shuffled).of_key(key)
    assert owner in members


def test_members_own_equal_shares():
    owned = Counter(Ownership(NAMES).of_emitter(*key) for key in KEYS)
    assert set(owned) == set(NAMES)
    assert all(0.8 < count / (len(KEYS) / len(NAMES)) < 1.2 for count in owned.values())


def test_only_the_emitters_of_a_member_that_left_move():
    before, after = Ownership(NAMES), Ownership(NAMES[:-1])
    for key in KEYS:
        if before.of_emitter(*key) != NAMES[-1]:
            assert after.of_emitter(*key) == before.of_emitter(*key)


@given(st.lists(st.tuples(st.sampled_from([None, "x", "y", "z"]), st.integers(1, 5)), max_size=12))
def test_the_parts_of_a_body_are_its_lines_by_owner_in_order(shape):
    ownership = Ownership(NAMES)
    next_number = Counter()
    runs = []
    for emitter, count in shape:
        runs.append(EmitterRun(emitter, next_number[emitter] + 1, count))
        next_number[emitter] += count
    whole = body(runs)
    parts = ownership.parts_of(whole)
    lines = [line for _, part in parts for line in part.data.split(b"\n")]
    assert sorted(lines) == sorted(whole.data.split(b"\n"))
    assert sum(part.records for _, part in parts) == whole.records
    for owner, part in parts:
        assert lines_of(part) == [
            line for line in whole.data.split(b"\n") if line in lines_of(part)
        ]
        with_numbers = [run for run in part.runs if run.emitter_id is not None]
        assert all(ownership.of_emitter("tenant", run.emitter_id) == owner for run in with_numbers)
        if with_numbers:
            assert sum(run.count for run in part.runs) == part.records
    if len(parts) > 1:
        assert all(not part.rejected and not part.rejected_reasons for _, part in parts)


def lines_of(part):
    return part.data.split(b"\n")


def test_bodies_without_numbers_belong_to_the_owner_of_their_bytes():
    ownership = Ownership(NAMES)
    spans = [
        Body(kind=Kind.SPANS, tenant="t", received_unix_nano=n, data=b"%d" % n, records=1)
        for n in range(100)
    ]
    owners = [owner for each in spans for owner, _ in ownership.parts_of(each)]
    assert set(owners) == set(NAMES)
    assert owners == [owner for each in spans for owner, _ in ownership.parts_of(each)]
