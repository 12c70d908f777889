"""Signal handlers: their exceptions reach the program, and their calls do not deadlock."""

import functools
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace

import tracereel
from tests.sdk.conftest import Child
from tests.support.waiting import wait_until
from tracereel import current_execution, traced_agent
from tracereel._core import context
from tracereel._runtime import guard
from tracereel._runtime.wakeup import Wakeup

Deliver = Callable[[], list[dict[str, Any]]]
Handler = Callable[[int, FrameType | None], Any]


class AlarmError(Exception):
    """Exception of a user-written timeout, raised from its signal handler."""


@contextmanager
def handling(handler: Handler, number: int = signal.SIGALRM) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(number, before)


def plainly(number: int, frame: FrameType | None) -> None:
    raise AlarmError


def by_another(number: int, frame: FrameType | None) -> None:
    plainly_raised()


def plainly_raised() -> None:
    raise AlarmError


def forgetful(number: int, frame: FrameType | None) -> None:
    del frame
    plainly_raised()


class Timer:
    def ring(self, number: int, frame: FrameType | None) -> None:
        raise AlarmError

    def __call__(self, number: int, frame: FrameType | None) -> None:
        raise AlarmError


def with_more(what: str, number: int, frame: FrameType | None) -> None:
    raise AlarmError(what)


HANDLERS: list[Any] = [
    *(plainly, by_another, forgetful, Timer().ring, Timer()),
    functools.partial(with_more, "x"),
    lambda *_: plainly_raised(),
]


@pytest.fixture
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Swallow internal errors, as in production."""
    monkeypatch.delenv(guard.RAISE_ENV)
    # Python swallows exceptions raised in gc callbacks, and other tests leave some behind.
    others = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = others


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_handler_raises_inside_our_code_reaches_the_program(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = guard.errors.total()
    with handling(handler, signal.SIGUSR1), pytest.raises(AlarmError), guard.Guard("here"):
        signal.raise_signal(signal.SIGUSR1)
    assert guard.errors.total() == before


@pytest.mark.usefixtures("_quiet")
def test_an_error_of_ours_is_swallowed_also_where_frames_are_passed_around() -> None:
    def fails(frame: FrameType | None) -> None:
        raise AlarmError

    def ours() -> None:
        frame = signal.getsignal(signal.SIGUSR1), None
        assert frame
        fails(None)

    with handling(plainly, signal.SIGUSR1), guard.Guard("here"):
        ours()


@pytest.mark.usefixtures("_quiet", "recorded")
def test_alarms_at_any_moment_of_a_traced_call_reach_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Alarms at varying moments: each reaches the program, and the context is restored.

    Alarms during a finaliser are an exception: Python passes them to its unraisable hook.
    """
    rung: list[int] = []
    in_finalisers: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: in_finalisers.append(told.exc_type))

    def ring(number: int, frame: FrameType | None) -> None:
        rung.append(1)
        raise AlarmError

    @traced_agent("a")
    def work(data: dict[str, Any]) -> dict[str, Any]:
        current_execution().set(confidence=0.5)
        return data

    seen, calls = 0, 0
    data = {"text": "x" * 300, "mail": "ana@example.com", "numbers": list(range(20))}
    left_behind = []
    work(data)
    tracereel.flush(20.0)
    with handling(ring):
        while len(rung) < 400:
            calls += 1
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00001 + calls % 150 * 0.000002)
                work(data)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except AlarmError:
                seen += 1
            if (
                context.current_execution() is not None
                or trace.get_current_span() is not trace.INVALID_SPAN
            ):
                left_behind.append(calls)
                context.current.set(None)
                otel_context.attach(otel_context.Context())
    assert seen + in_finalisers.count(AlarmError) == len(rung)
    assert in_finalisers == [AlarmError] * len(in_finalisers)
    assert len(in_finalisers) < len(rung) // 10
    assert left_behind == []


def finished(process: Any) -> str:
    """Return the output of a child; fail if it hangs."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return str(out)


def test_traced_calls_in_a_handler_never_wait_for_what_they_interrupt(child: Child) -> None:
    """The handler runs while its own thread holds each lock of a run in turn."""
    process = child(
        """
        import signal, tracereel
        from tracereel._core import recorder as _recorder, run_state as _run
        from tracereel.propagation import extract
        from tracereel.resilience import fixed_delay, retry

        tracereel.configure(endpoint="http://127.0.0.1:1", exit_timeout=0.0)
        outcomes = []

        def work():
            with tracereel.traced_llm("m"):
                tracereel.current_execution().set(llm_prompt_tokens=3, llm_cost_usd=0.5)
            tracereel.current_execution().add_usage(prompt_tokens=2)
            tracereel.current_execution().round(limit=3)
            tracereel.traced_tool("t", tool_call_id="c")(lambda: 1)()
            if len(outcomes) % 2 == 0:
                outcomes.append("again")
                raise OSError
            outcomes.append("done")

        @tracereel.traced_pipeline("p")
        def run():
            clock = _recorder.active().clock
            for held in (_run.lock, clock._lock):
                with held:
                    signal.raise_signal(signal.SIGUSR1)

        call = retry(2, strategy=fixed_delay(0))(tracereel.traced_agent("a")(work))
        signal.signal(signal.SIGUSR1, lambda *_: call())
        run()
        print(outcomes)
        """
    )
    assert finished(process).strip() == str(["again", "done"] * 2)


@pytest.mark.usefixtures("_quiet")
def test_wakeup_can_be_set_from_signal_handlers() -> None:
    """A handler that sets the wakeup, and one that raises, during `set`: neither deadlocks."""
    bell = Wakeup()
    rings: list[bool] = []

    def ring(number: int, frame: FrameType | None) -> None:
        bell.set()
        rings.append(True)
        raise AlarmError

    waits: list[bool] = []
    stop = threading.Event()

    def wait() -> None:
        while not stop.is_set():
            if bell.wait(0.05):
                waits.append(True)
                bell.clear()

    thread = threading.Thread(target=wait)
    thread.start()
    with handling(ring):
        calls = 0
        while len(rings) < 200:
            calls += 1
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00001 + calls % 30 * 0.000001)
                for _ in range(50):
                    bell.set()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except AlarmError:
                continue
    heard = len(waits)
    bell.set()
    wait_until(lambda: len(waits) > heard or not bell.is_set())
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert waits


def test_a_forked_child_never_waits_for_a_thread_it_does_not_have(child: Child) -> None:
    process = child(
        """
        import os, threading, time
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forking with threads
        from tracereel._core import run_state as _run

        state, tally, stop = _run.ExecutionState("e"), _run.Tally(_run.Tally(None)), threading.Event()

        def count():
            while not stop.is_set():
                state.add_usage((1, 1, 2, 0.1))
                tally.begin()

        threads = [threading.Thread(target=count) for _ in range(2)]
        for each in threads:
            each.start()
        hung = 0
        for _ in range(60):
            pid = os.fork()
            if pid == 0:
                state.add_usage((1, 1, 2, 0.1))
                tally.begin()
                os._exit(0)
            deadline = time.monotonic() + 10
            while os.waitpid(pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(pid, 9)
                    os.waitpid(pid, 0)
                    hung += 1
                    break
                os.sched_yield()
        stop.set()
        print(hung)
        """
    )
    assert finished(process).strip() == "0"
