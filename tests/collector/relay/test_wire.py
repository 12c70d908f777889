"""Relays in a request: what is sent is what arrives, and damage is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.errors import BadRequestError
from tracereel_collector.model import Body, EmitterRun, Kind, Relay
from tracereel_collector.relay.wire import decode, encode

runs = st.tuples(st.none() | st.text(max_size=8), st.integers(0, 2**62), st.integers(1, 9))
relays = st.builds(
    Relay,
    id=st.integers(1, 2**62),
    passed=st.text(max_size=8),
    body=st.builds(
        Body,
        kind=st.sampled_from(Kind),
        tenant=st.text(min_size=1, max_size=8),
        received_unix_nano=st.integers(0, 2**62),
        data=st.binary(max_size=40),
        records=st.integers(1, 99),
        runs=st.lists(runs.map(lambda run: EmitterRun(*run)), max_size=3).map(tuple),
        owners=st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=2).map(tuple),
    ),
)


@given(st.lists(relays, max_size=4))
def test_relays_arrive_as_they_were_sent(sent):
    assert decode(encode(sent)) == sent


@given(st.lists(relays, min_size=1, max_size=3), st.data())
def test_a_request_that_was_cut_off_is_refused_or_a_whole_beginning(sent, data):
    wire = encode(sent)
    cut = data.draw(st.integers(0, len(wire) - 1))
    try:
        arrived = decode(wire[:cut])
    except BadRequestError:
        return
    assert arrived == sent[: len(arrived)]
    assert len(arrived) < len(sent)


@pytest.mark.parametrize("wire", [b"x", b"{}\n", b"[]\n", b'{"id":1}\n', b"\xff\n", b"\n"])
def test_other_bytes_are_refused(wire):
    with pytest.raises(BadRequestError):
        decode(wire)


def test_damaged_bytes_are_refused():
    body = Body(kind=Kind.EVENTS, tenant="t", received_unix_nano=1, data=b"abc", records=1)
    wire = encode([Relay(id=1, body=body)])
    with pytest.raises(BadRequestError, match="damaged"):
        decode(wire.replace(b"abc", b"abd"))
