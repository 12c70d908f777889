"""A retry hook applies only to the next attempt: no other call continues its run."""

import asyncio
import contextvars
import gc
import pickle
import threading

import pytest

from tests.sdk.resilience.scripted import Scripted
from tracereel import traced_agent
from tracereel._core import closed_runs
from tracereel.resilience import instrument_stamina
from tracereel.resilience.stamina import on_retry, uninstrument_stamina
from tracereel.resilience.tenacity import before_sleep

tenacity = pytest.importorskip("tenacity")
stamina = pytest.importorskip("stamina")
from tests.sdk.resilience import loops  # noqa: E402 - it imports both

EACH_LOOP = pytest.mark.parametrize("loop", loops.LOOPS, ids=lambda loop: loop.__name__)


@pytest.fixture(autouse=True)
def _stamina():
    stamina.instrumentation.set_on_retry_hooks([])
    instrument_stamina()
    yield
    uninstrument_stamina()
    stamina.instrumentation.set_on_retry_hooks(None)


@pytest.fixture
def runs(recorded):
    """Deliver everything; return the event types of each run, in order."""

    def of_each():
        found = {}
        for event in recorded():
            found.setdefault(event["trace_id"], []).append(event)
        for events in found.values():
            assert events[-1]["trace_event_count"] == len(events)
        return [
            " ".join(event["event_type"].rpartition(".")[2] for event in events)
            for events in found.values()
        ]

    return of_each


def agent_of(script):
    return traced_agent("a")(lambda: script())


FAILED_TWICE = "started failed attempted started failed attempted started failed"
RETRIED = "started failed attempted started completed"


@EACH_LOOP
def test_a_call_after_the_loop_is_a_run_of_its_own(runs, loop):
    agent = agent_of(Scripted(OSError("x"), "done", "another"))
    loop(agent)
    agent()
    assert runs() == [RETRIED, "started completed"]


@EACH_LOOP
def test_a_call_after_a_loop_that_gave_up_is_a_run_of_its_own(runs, loop):
    agent = agent_of(Scripted(*map(OSError, "xyz"), "another", "last"))
    try:
        loop(agent)
    except OSError:
        agent()  # while the exception, and with it the loop, is still alive
    agent()
    assert runs() == [FAILED_TWICE, "started completed", "started completed"]


@EACH_LOOP
def test_attempt_that_never_reaches_the_agent_leaves_no_state(runs, loop):
    agent = agent_of(Scripted(OSError("x"), "another"))
    reached = Scripted(True, False, False)

    def flow():
        return agent() if reached() else "done without it"

    assert loop(flow) == "done without it"
    agent()
    assert runs() == ["started failed attempted", "started completed"]


@EACH_LOOP
def test_an_attempt_that_fails_before_the_agent_leaves_nothing_behind(runs, registry, loop):
    agent = agent_of(Scripted(OSError("x"), "another"))
    before = Scripted(None, OSError("y"), OSError("z"))

    def flow():
        before()
        return agent()

    with pytest.raises(OSError, match="z"):
        loop(flow)
    agent()
    assert runs() == ["started failed attempted", "started completed"]
    # The second attempt was no run, so its retry belongs to none.
    labels = {"reason": "no_execution"}
    assert registry.get_sample_value("tracereel_sdk_events_dropped_total", labels) == 1


def test_a_wait_that_is_interrupted_is_followed_by_a_run_of_its_own(runs):
    def interrupted(_seconds):
        raise KeyboardInterrupt

    agent = agent_of(Scripted(OSError("x"), "another", "last"))
    loop = tenacity.retry(before_sleep=before_sleep(), sleep=interrupted)(agent)
    try:
        loop()
    except KeyboardInterrupt:
        agent()
    agent()
    assert runs() == ["started failed attempted", "started completed", "started completed"]


@pytest.mark.parametrize(
    "again",
    [
        tenacity.retry(before_sleep=before_sleep(), wait=tenacity.wait_fixed(60)),
        stamina.retry(on=OSError, timeout=None, wait_initial=60, wait_max=60, wait_jitter=0),
    ],
    ids=["tenacity", "stamina"],
)
def test_a_wait_that_takes_too_long_is_followed_by_a_run_of_its_own(runs, again):
    agent = agent_of(Scripted(OSError("x"), "another"))

    @again
    async def patient() -> str:
        return agent()

    async def main() -> str:
        try:
            async with asyncio.timeout(0.01):
                return await patient()
        except TimeoutError:
            return agent()

    assert asyncio.run(main()) == "another"
    assert runs() == ["started failed attempted", "started completed"]


def test_a_call_during_the_wait_is_a_run_of_its_own(runs):
    agent = agent_of(Scripted(OSError("x"), "meanwhile", "done"))
    loop = tenacity.retry(before_sleep=before_sleep(), sleep=lambda _seconds: agent())(agent)
    assert loop() == "done"
    assert sorted(runs()) == ["started completed", RETRIED]


@EACH_LOOP
def test_only_one_call_in_an_attempt_continues_the_run(runs, loop):
    agent = agent_of(Scripted(OSError("x"), "one", "two"))
    loop(lambda: (agent(), agent()))
    assert runs() == [RETRIED, "started completed"]


@EACH_LOOP
def test_another_agent_in_the_attempt_is_a_run_of_its_own(runs, loop):
    agent, other = agent_of(Scripted(OSError("x"), "done")), traced_agent("b")(lambda: 1)
    reached = Scripted(False, True)
    loop(lambda: (other() if reached() else None, agent()))
    assert sorted(runs()) == ["started completed", RETRIED]


def test_a_trace_id_that_changes_is_another_run(runs):
    script, ids = Scripted(OSError("x"), "done"), iter(["trc_one", "trc_two"])
    agent = traced_agent("a")(lambda **_ids: script())
    loops.tenacity_decorator(lambda: agent(trace_id=next(ids)))
    assert runs() == ["started failed attempted", "started completed"]


def test_threads_do_not_see_it(runs):
    agent = agent_of(Scripted(OSError("x"), "elsewhere", "done"))

    def elsewhere(_seconds):
        thread = threading.Thread(target=agent)
        thread.start()
        thread.join()

    assert tenacity.retry(before_sleep=before_sleep(), sleep=elsewhere)(agent)() == "done"
    assert sorted(runs()) == ["started completed", RETRIED]


def test_a_context_that_was_copied_before_the_loop_ended_does_not_keep_it(runs):
    agent = agent_of(Scripted(OSError("x"), "done", "later"))
    copies = []

    def flow():
        copies.append(contextvars.copy_context())
        return agent()

    loops.tenacity_decorator(flow)
    assert copies[-1].run(agent) == "later"
    assert runs() == [RETRIED, "started completed"]


@pytest.mark.parametrize("loop", [loops.tenacity_decorator, loops.stamina_decorator])
def test_an_exception_that_was_raised_before_names_no_run(runs, registry, loop):
    """An exception object raised again by untraced code does not refer to the earlier run."""
    constant = OSError("always the same")
    with pytest.raises(OSError, match="always"):
        agent_of(Scripted(constant))()
    loop(Scripted(constant, "done"))
    assert runs() == ["started failed"]
    labels = {"reason": "no_execution"}
    assert registry.get_sample_value("tracereel_sdk_events_dropped_total", labels) == 1


def test_a_result_from_before_the_loop_names_no_run(runs):
    agent_of(Scripted("before"))()
    refusing = tenacity.retry_if_result(lambda result: result is None)
    loop = tenacity.retry(before_sleep=before_sleep(), retry=refusing)
    assert loop(Scripted(None, "done"))() == "done"
    assert runs() == ["started completed"]


@pytest.mark.parametrize("kind", ["tenacity", "stamina"])
def test_a_hundred_tasks_have_a_hundred_runs(recorded, kind):
    again = {
        "tenacity": tenacity.retry(before_sleep=before_sleep()),
        "stamina": stamina.retry(on=OSError, wait_initial=0, wait_max=0, wait_jitter=0),
    }[kind]

    @again
    @traced_agent("a")
    async def call(script: Scripted) -> str:
        await asyncio.sleep(0)
        return script()

    async def main() -> None:
        scripts = [Scripted(*[OSError()] * (number % 4), "done") for number in range(100)]
        await asyncio.gather(*map(call, scripts))

    asyncio.run(main())
    found = {}
    for event in recorded():
        found.setdefault(event["trace_id"], []).append(event)
    assert len(found) == 100
    for events in found.values():
        retries = [e for e in events if e["event_type"] == "agent.retry.attempted"]
        assert len(retries) == events[-1]["retry_count"]
        assert events[-1]["trace_event_count"] == len(events) == 2 + 3 * len(retries)


def test_announced_attempt_expires_if_the_loop_is_not_visible(
    runs, monkeypatch: pytest.MonkeyPatch
):
    """A stamina with different internals: the hook is called without access to the state."""
    clock = [1000.0]
    monkeypatch.setattr("tracereel._core.external_retries.time.monotonic", lambda: clock[0])
    agent = agent_of(Scripted(OSError("x"), "in time", OSError("y"), "too late"))
    for pause in (1.0, 60.0):
        with pytest.raises(OSError, match=r"[xy]") as raised:
            agent()
        on_retry(
            stamina.instrumentation.RetryDetails(
                name="f",
                args=(),
                kwargs={},
                retry_num=1,
                wait_for=0.5,
                waited_so_far=0.0,
                caused_by=raised.value,
            )
        )
        clock[0] += pause
        agent()
    assert runs() == [RETRIED, "started failed attempted", "started completed"]


def test_retry_state_is_bounded_and_holds_no_loop_alive(recorded):
    agent = traced_agent("a")(lambda error: (_ for _ in ()).throw(error))
    for number in range(closed_runs.MAX_REMEMBERED + 10):
        with pytest.raises(OSError, match=str(number)):
            agent(OSError(number))
    assert len(closed_runs._failed) <= closed_runs.MAX_REMEMBERED

    class Large:
        """Object used by an attempt."""

    loops.tenacity_decorator(agent_of(Scripted(OSError(Large()), "done")))
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is Large]


def test_a_marked_exception_can_still_be_sent_elsewhere(recorded):
    with pytest.raises(OSError, match="x") as raised:
        agent_of(Scripted(OSError("x")))()
    assert str(pickle.loads(pickle.dumps(raised.value))) == "x"


class Odd:
    """A state unlike that of any tenacity version; one without weak references."""

    __slots__ = ("fn", "next_action", "outcome", "retry_object")

    attempt_number = 1


def test_unexpected_tenacity_state_is_ignored(runs):
    agent = agent_of(Scripted(OSError("x"), "done"))
    with pytest.raises(OSError, match="x") as raised:
        agent()
    state = Odd()
    state.fn = state.next_action = state.retry_object = None
    state.outcome = tenacity.Future(1)
    state.outcome.set_exception(raised.value)
    before_sleep()(state)
    agent()
    assert runs() == [RETRIED]
