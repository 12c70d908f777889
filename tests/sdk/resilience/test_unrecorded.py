"""Retries and fallbacks behave the same with recording off."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracereel
from tests.sdk.resilience.conftest import Naps
from tests.sdk.resilience.scripted import Scripted
from tracereel._core import recorder
from tracereel.resilience import fallback, fixed_delay, retry
from tracereel.testing import EventRecorder

KINDS = st.lists(st.sampled_from(["good", "poor", "os", "value", "timeout", "stop"]), min_size=8)
POLICIES = st.fixed_dictionaries(
    {
        "attempts": st.integers(1, 4),
        "on": st.sampled_from([Exception, OSError, (OSError, ValueError)]),
        "never": st.sampled_from([(), TimeoutError]),
        "min_confidence": st.sampled_from([None, 0.5]),
        "confidence_of": st.sampled_from([None, lambda result: 0.1 if "poor" in result else 0.9]),
    }
)
PLANS = st.fixed_dictionaries(
    {
        "on": st.sampled_from([Exception, OSError]),
        "when": st.sampled_from([None, lambda result: "poor" in result]),
        "min_confidence": st.sampled_from([None, 0.5]),
        "confidence_of": st.sampled_from([None, lambda result: 0.1 if "poor" in result else 0.9]),
    }
)


def outcome(kind: str, number: int) -> Any:
    return {
        "good": f"good {number}",
        "poor": f"poor {number}",
        "os": OSError(f"{number}"),
        "value": ValueError(f"{number}"),
        "timeout": TimeoutError(f"{number}"),
        "stop": KeyboardInterrupt(f"{number}"),
    }[kind]


@pytest.fixture
def _off() -> Iterator[None]:
    tracereel.configure(enabled=False)
    yield
    assert recorder.active() is None


def ending(call: Callable[[], Any]) -> tuple[Any, ...]:
    try:
        return ("returned", call())
    except BaseException as error:
        return ("raised", type(error), error.args, getattr(error, "__notes__", []))


def story(make: Callable[[Scripted, Naps], Callable[[], Any]], kinds: list[str]) -> tuple[Any, ...]:
    script = Scripted(*(outcome(kind, number) for number, kind in enumerate(kinds)))
    naps = Naps()
    end = ending(make(script, naps))
    return end, script.calls, list(naps)


def same(make: Callable[[Scripted, Naps], Callable[[], Any]], kinds: list[str]) -> None:
    off = story(make, kinds)
    with EventRecorder():
        assert story(make, kinds) == off


@pytest.mark.usefixtures("_off")
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(KINDS, POLICIES, st.booleans())
def test_a_retry(kinds: list[str], policy: dict[str, Any], later: bool) -> None:
    def make(script: Scripted, naps: Naps) -> Callable[[], Any]:
        sleep = naps.later if later else naps
        options = {**policy, "strategy": fixed_delay(2), "sleep": sleep}
        if not later:
            return retry(**options)(script)

        async def call() -> Any:
            return script()

        return lambda: asyncio.run(retry(**options)(call)())

    same(make, kinds)


@pytest.mark.usefixtures("_off")
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(KINDS, PLANS, st.integers(1, 3))
def test_a_fallback(kinds: list[str], plan: dict[str, Any], routes: int) -> None:
    def make(script: Scripted, _naps: Naps) -> Callable[[], Any]:
        chain = [lambda: script() for _ in range(routes)]
        return fallback(to=chain, **plan)(lambda: script())

    same(make, kinds)
