"""Delays are never negative, never above the maximum, and random only within the jitter."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel.resilience import exponential_backoff, fixed_delay

seconds = st.floats(0.0, 1e9)
factors = st.floats(1.0, 1e6)
parts = st.floats(0.0, 1.0)
attempts = st.integers(1, 10**6)


@given(seconds, factors, seconds, parts, parts, attempts)
def test_an_exponential_delay_lies_between_its_bounds(base, factor, maximum, jitter, draw, attempt):
    strategy = exponential_backoff(
        base, factor=factor, maximum=maximum, jitter=jitter, random=lambda: draw
    )
    full = exponential_backoff(base, factor=factor, maximum=maximum, jitter=0.0).delay(attempt)

    delay = strategy.delay(attempt)

    assert 0.0 <= delay <= full <= maximum
    assert delay >= full * (1 - jitter) - 1e-6 * full


@given(seconds, factors, seconds, st.integers(1, 5000))
def test_without_jitter_delays_never_shrink(base, factor, maximum, attempt):
    strategy = exponential_backoff(base, factor=factor, maximum=maximum, jitter=0.0)

    assert strategy.delay(attempt) <= strategy.delay(attempt + 1)


@given(seconds, parts, parts, attempts)
def test_a_fixed_delay_is_the_same_for_every_attempt(value, jitter, draw, attempt):
    assert fixed_delay(value).delay(attempt) == value
    assert 0.0 <= fixed_delay(value, jitter=jitter, random=lambda: draw).delay(attempt) <= value


def test_the_usual_delays_double():
    strategy = exponential_backoff(1.0, jitter=0.0)

    assert [strategy.delay(attempt) for attempt in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]


def test_the_default_draws_differ():
    strategy = exponential_backoff()

    assert len({strategy.delay(6) for _ in range(50)}) > 1


@pytest.mark.parametrize(
    "options",
    [
        {"base": -1.0},
        {"base": math.nan},
        {"base": math.inf},
        {"factor": 0.5},
        {"maximum": -0.1},
        {"jitter": 1.5},
        {"jitter": -0.5},
    ],
)
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        exponential_backoff(**options)


def test_a_negative_fixed_delay_is_refused():
    with pytest.raises(ValueError, match="seconds"):
        fixed_delay(-1)


def test_strategies_have_the_names_of_the_contract():
    assert exponential_backoff().name == "exponential_backoff"
    assert fixed_delay(1).name == "fixed_delay"
