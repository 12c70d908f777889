"""Retry calls and results, with and without recording."""

import asyncio
import contextvars
import inspect
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

import tracereel
from tests.sdk.resilience.scripted import Scripted
from tracereel import current_execution, traced_agent
from tracereel.resilience import exponential_backoff, fixed_delay, retry


@pytest.fixture(params=["recording", "off"], autouse=True)
def _recording(request, sink):
    """Run every test with recording on and off."""
    tracereel.configure(endpoint=sink.url, enabled=request.param == "recording")


class LimitedError(Exception):
    def __init__(self, retry_after):
        super().__init__("slow down")
        self.retry_after = retry_after


def test_function_is_retried_until_it_succeeds(naps):
    script = Scripted(OSError(1), OSError(2), "done")
    call = retry(3, strategy=fixed_delay(0.5), sleep=naps)(script)

    assert call() == "done"
    assert script.calls == 3
    assert naps == [0.5, 0.5]


def test_the_last_exception_is_raised_as_it_is(naps):
    errors = [OSError("first"), OSError("second")]
    call = retry(2, sleep=naps)(Scripted(*errors))

    with pytest.raises(OSError, match="second") as raised:
        call()

    assert raised.value is errors[1]
    assert raised.value.__context__ is None
    assert not hasattr(raised.value, "__notes__")
    assert len(naps) == 1


def test_single_attempt_does_not_retry(naps):
    with pytest.raises(OSError, match="x"):
        retry(1, sleep=naps)(Scripted(OSError("x")))()

    assert naps == []


@pytest.mark.parametrize(
    ("options", "error", "calls"),
    [
        ({"on": OSError}, ValueError(), 1),
        ({"on": OSError}, ConnectionError(), 2),
        ({"on": (OSError, ValueError)}, ValueError(), 2),
        ({"never": ValueError}, ValueError(), 1),
        ({"on": OSError, "never": (ConnectionError,)}, ConnectionError(), 1),
        ({"on": BaseException}, KeyboardInterrupt(), 1),
        ({"on": BaseException}, asyncio.CancelledError(), 1),
        ({"on": BaseException}, GeneratorExit(), 1),
        ({"on": BaseException}, SystemExit(), 1),
    ],
)
def test_only_listed_errors_and_no_interrupts_are_retried(options, error, calls, naps):
    script = Scripted(error, "done")
    call = retry(2, sleep=naps, **options)(script)

    if calls == 1:
        with pytest.raises(type(error)):
            call()
    else:
        assert call() == "done"
    assert script.calls == calls


def test_an_error_may_ask_for_a_longer_delay_but_not_for_a_shorter_one(naps):
    call = retry(4, strategy=fixed_delay(2.0), sleep=naps)(
        Scripted(LimitedError(7), LimitedError(0.5), LimitedError("nonsense"), "done")
    )

    assert call() == "done"
    assert naps == [7.0, 2.0, 2.0]


def test_retry_after_header_of_a_response_is_respected(naps):
    error = OSError()
    error.response = SimpleNamespace(headers={"retry-after": "9"})

    assert retry(2, strategy=fixed_delay(1.0), sleep=naps)(Scripted(error, "done"))() == "done"
    assert naps == [9.0]


def test_error_with_a_too_long_retry_after_is_not_retried(naps):
    script = Scripted(LimitedError(3600), "done")

    with pytest.raises(LimitedError):
        retry(3, sleep=naps, max_retry_after=60)(script)()

    assert (script.calls, naps) == (1, [])


def test_a_date_in_the_header_is_a_delay_like_a_number(naps):
    def limited(moment):
        error = LimitedError(None)
        error.response = SimpleNamespace(headers={"retry-after": format_datetime(moment)})
        return error

    now = datetime.now(UTC)
    past, tomorrow = limited(now - timedelta(days=1)), limited(now + timedelta(days=1))
    call = retry(3, strategy=fixed_delay(2.0), sleep=naps, max_retry_after=1e6)

    assert call(Scripted(past, tomorrow, "done"))() == "done"
    assert naps[0] == 2.0
    assert naps[1] == pytest.approx(86_400, abs=3_600)
    with pytest.raises(LimitedError):
        retry(3, sleep=naps, max_retry_after=3_600)(Scripted(tomorrow, "done"))()


def test_errors_with_raising_attributes_are_retried(naps):
    class HostileError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

        @property
        def retry_after(self):
            raise RuntimeError("no time")

    assert retry(2, sleep=naps)(Scripted(HostileError(), "done"))() == "done"


def test_a_result_of_low_confidence_is_tried_again(naps):
    script = Scripted(0.2, 0.4, 0.9)
    call = retry(5, min_confidence=0.8, confidence_of=lambda result: result, sleep=naps)(script)

    assert call() == 0.9
    assert script.calls == 3


def test_the_last_result_is_returned_when_none_was_good(naps):
    call = retry(2, min_confidence=0.8, confidence_of=lambda result: result, sleep=naps)(
        Scripted(0.5, 0.3)
    )

    assert call() == 0.3


def test_an_unknown_confidence_is_not_a_low_one(naps):
    assert retry(2, min_confidence=0.8, sleep=naps)(Scripted("done"))() == "done"
    assert retry(2, min_confidence=0.8, confidence_of=len, sleep=naps)(Scripted(7))() == 7


def test_a_strategy_that_fails_does_not_end_the_retries(naps):
    class Broken:
        name = "broken"

        def delay(self, attempt):
            return {1: "soon", 2: float("nan"), 3: -5, 4: 1e300}[attempt]

    call = retry(6, strategy=Broken(), sleep=naps)(Scripted(*[OSError()] * 5, "done"))

    assert call() == "done"
    assert len(naps) == 5
    assert all(0 <= nap < 1e9 for nap in naps)
    assert naps[0] > 0


def test_coroutine_functions_are_awaited_and_stay_coroutine_functions(naps):
    script = Scripted(OSError(), "done")

    @retry(2, sleep=naps.later)
    async def call(prompt: str) -> str:
        """Says it."""
        return script(prompt)

    assert inspect.iscoroutinefunction(call)
    assert call.__doc__ == "Says it."
    assert asyncio.run(call("x")) == "done"
    assert len(naps) == 1


def test_a_plain_sleep_serves_a_coroutine_function_too(naps):
    script = Scripted(OSError(), "done")

    @retry(2, sleep=naps)
    async def call() -> str:
        return script()

    assert asyncio.run(call()) == "done"
    assert len(naps) == 1


def test_the_usual_sleep_is_that_of_asyncio():
    script = Scripted(OSError(), "done")

    @retry(2, strategy=fixed_delay(0))
    async def call() -> str:
        return script()

    assert asyncio.run(call()) == "done"
    assert retry(2, strategy=fixed_delay(0))(Scripted(OSError(), "done"))() == "done"


def test_an_attempt_above_the_time_limit_is_cancelled_and_retried(naps):
    calls = []

    @retry(3, on=OSError, timeout=0.01, sleep=naps.later)
    async def call() -> str:
        calls.append(1)
        if len(calls) < 3:
            await asyncio.Event().wait()
        return "done"

    assert asyncio.run(call()) == "done"
    assert len(calls) == 3


def test_when_every_attempt_takes_too_long_the_timeout_is_raised(naps):
    @retry(2, timeout=0.01, sleep=naps.later)
    async def call() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(call())


def test_cancelling_during_the_delay_ends_it():
    script = Scripted(OSError(), "never")
    waiting = asyncio.Event()

    async def forever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    @traced_agent("a")
    @retry(2, sleep=forever)
    async def call() -> str:
        return script()

    async def main() -> None:
        task = asyncio.create_task(call())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(main())
    assert script.calls == 1


def test_cancelling_an_attempt_ends_it(naps):
    began = asyncio.Event()

    @retry(5, timeout=100, sleep=naps.later)
    async def call() -> None:
        began.set()
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(call())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert naps == []


def test_a_coroutine_closed_elsewhere_is_closed(naps, caplog):
    @traced_agent("a")
    @retry(2, sleep=naps.later)
    async def call() -> None:
        await asyncio.sleep(0)

    coroutine = call()
    contextvars.copy_context().run(coroutine.send, None)
    coroutine.close()
    assert naps == []
    assert [line for line in caplog.records if line.levelname == "ERROR"] == []


def test_methods_of_every_kind(naps):
    class Agent:
        def __init__(self) -> None:
            self.script = Scripted(OSError(), "method")

        @retry(2, sleep=naps)
        def method(self, value: int) -> str:
            return f"{self.script()} {value}"

        @retry(2, sleep=naps)
        @classmethod
        def of_class(cls) -> str:
            return cls.__name__

        @staticmethod
        @retry(2, sleep=naps)
        def static() -> str:
            return "static"

        @retry(2, sleep=naps)
        async def later(self) -> str:
            return self.script()

    agent = Agent()
    assert agent.method(7) == "method 7"
    assert Agent.of_class() == "Agent"
    assert Agent.static() == "static"
    agent.script = Scripted(OSError(), "later")
    assert asyncio.run(agent.later()) == "later"


def test_unretryable_function_is_refused_at_decoration():
    def generator():
        yield 1

    async def asynchronous():
        yield 1

    for function in (generator, asynchronous):
        with pytest.raises(TypeError, match="generator"):
            retry()(function)
    with pytest.raises(TypeError, match="interrupted"):
        retry(timeout=1)(lambda: 1)
    with pytest.raises(TypeError, match=r"@retry\(\)"):
        retry(lambda: 1)
    with pytest.raises(TypeError, match="never"):
        retry(never="ValueError")
    for attempts in (0, -1, 1.5, None):
        with pytest.raises(ValueError, match="attempts"):
            retry(attempts)
    with pytest.raises(ValueError, match="timeout"):
        retry(timeout=0)
    with pytest.raises(ValueError, match="min_confidence"):
        retry(min_confidence="high")
    with pytest.raises(ValueError, match="max_retry_after"):
        retry(max_retry_after=-1)
    with pytest.raises(TypeError, match="function"):
        retry()(7)


def test_a_hundred_tasks_do_not_mix(naps):
    @traced_agent("a")
    @retry(4, strategy=exponential_backoff(jitter=0), sleep=naps.later)
    async def call(number: int, script: Scripted) -> tuple[int, str]:
        await asyncio.sleep(0)
        tracereel.current_execution()
        return number, script()

    async def main() -> list[tuple[int, str]]:
        scripts = [Scripted(*[OSError()] * (number % 4), "done") for number in range(100)]
        return await asyncio.gather(*(call(n, script) for n, script in enumerate(scripts)))

    assert asyncio.run(main()) == [(number, "done") for number in range(100)]
    assert len(naps) == sum(number % 4 for number in range(100))
    assert not current_execution()
