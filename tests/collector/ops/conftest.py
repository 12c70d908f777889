"""Fixture for queue bodies."""

import itertools

import pytest

from tracereel_collector.model import Body, Kind


@pytest.fixture
def body():
    numbers = itertools.count()

    def make(*, size, received):
        return Body(
            kind=Kind.EVENTS,
            tenant="acme",
            received_unix_nano=int(received * 1e9),
            data=str(next(numbers)).encode().ljust(size),
            records=1,
        )

    return make
