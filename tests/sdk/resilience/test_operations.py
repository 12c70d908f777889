"""Operations and their attempts, counted in events, metrics and pipelines."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.sdk.resilience.scripted import Scripted
from tracereel import current_execution, traced_agent, traced_llm, traced_pipeline
from tracereel.propagation import carry
from tracereel.resilience import fallback, fixed_delay, instrument_stamina, retry
from tracereel.resilience.stamina import uninstrument_stamina
from tracereel.resilience.tenacity import before_sleep

tenacity = pytest.importorskip("tenacity")
stamina = pytest.importorskip("stamina")

Deliver = Callable[[], list[dict[str, Any]]]
Wrapper = Callable[[Any], Any]

ours = retry(3, strategy=fixed_delay(0))
tenacious = tenacity.retry(
    stop=tenacity.stop_after_attempt(3), before_sleep=before_sleep(), reraise=True
)
staminous = stamina.retry(on=OSError, attempts=3, wait_initial=0, wait_max=0, wait_jitter=0)
LOOPS = pytest.mark.parametrize(
    "loop", [ours, tenacious, staminous], ids=["retry", "tenacity", "stamina"]
)


@pytest.fixture(autouse=True)
def _stamina():
    stamina.instrumentation.set_on_retry_hooks([])
    instrument_stamina()
    yield
    uninstrument_stamina()
    stamina.instrumentation.set_on_retry_hooks(None)


def pipeline_of(recorded: Deliver) -> dict[str, Any]:
    (closed,) = [e for e in recorded() if e["event_type"] == "agent.pipeline.completed"]
    return closed


def counts(closed: dict[str, Any]) -> tuple[int, ...]:
    """Return the executed, succeeded, failed and retried counts."""
    names = ("agents_executed", "agents_succeeded", "agents_failed", "agents_retried")
    return tuple(closed[name] for name in names)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


def operations(registry: CollectorRegistry, agent: str, status: str) -> float:
    return value(registry, "agent_executions_total", agent_name=agent, status=status) - value(
        registry, "tracereel_agent_repeated_executions_total", agent_name=agent, status=status
    )


def attempts(registry: CollectorRegistry, agent: str) -> float:
    return value(registry, "tracereel_agent_attempts_total", agent_name=agent)


@LOOPS
@pytest.mark.parametrize("nesting", ["inside", "around", "a function that calls it"])
def test_a_retried_operation_that_succeeds_is_one_and_has_not_failed(
    recorded: Deliver, registry: CollectorRegistry, loop: Wrapper, nesting: str
) -> None:
    script = Scripted(OSError("x"), OSError("y"), "done")
    if nesting == "inside":
        call = traced_agent("a")(loop(lambda: script()))
    elif nesting == "around":
        call = loop(traced_agent("a")(lambda: script()))
    else:
        agent = traced_agent("a")(lambda: script())
        call = loop(lambda: agent())
    traced_pipeline("p")(lambda: call())()
    closed = pipeline_of(recorded)
    assert counts(closed) == (1, 1, 0, 1)
    assert closed["status"] == "success"
    (result,) = closed["agent_results"]
    assert (result["status"], result["retry_count"]) == ("success", 2)
    assert attempts(registry, "a") == 3
    assert operations(registry, "a", "success") == 1
    assert operations(registry, "a", "failed") == 0


@LOOPS
@pytest.mark.parametrize("nesting", ["inside", "around"])
def test_an_operation_whose_last_attempt_fails_has_failed_once(
    recorded: Deliver, registry: CollectorRegistry, loop: Wrapper, nesting: str
) -> None:
    def body() -> None:
        raise OSError("x")

    call = traced_agent("a")(loop(body)) if nesting == "inside" else loop(traced_agent("a")(body))

    @traced_pipeline("p")
    def run() -> None:
        with pytest.raises(OSError, match="x"):
            call()

    run()
    closed = pipeline_of(recorded)
    assert counts(closed) == (1, 0, 1, 1)
    assert closed["status"] == "partial_success"
    assert attempts(registry, "a") == 3
    assert operations(registry, "a", "failed") == 1


def test_each_repetition_names_the_execution_it_repeats(recorded: Deliver) -> None:
    script = Scripted(OSError("x"), OSError("y"), "done")
    ours(traced_agent("a")(lambda: script()))()
    ended = [e for e in recorded() if "attempts_made" in e]
    assert [e["attempts_made"] for e in ended] == [1, 1, 1]
    assert [e.get("repeats_execution_id") for e in ended] == [
        None,
        ended[0]["execution_id"],
        ended[1]["execution_id"],
    ]


def test_outside_of_everything_the_attempts_are_still_one_operation(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    script = Scripted(OSError("x"), "done")
    agent = traced_agent("a")(lambda: script())
    ours(lambda: agent())()
    recorded()
    assert (attempts(registry, "a"), operations(registry, "a", "success")) == (2, 1)
    assert operations(registry, "a", "failed") == 0


def test_all_agents_of_a_repeated_attempt_are_attempts(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    """One succeeds each time, one fails first; a third is only reached by the last attempt."""
    script = Scripted(OSError("x"), "done")
    first, third = traced_agent("first")(lambda: 1), traced_agent("third")(lambda: 3)
    second = traced_agent("second")(lambda: script())

    @ours
    def flow() -> None:
        first()
        second()
        third()

    traced_pipeline("p")(flow)()
    closed = pipeline_of(recorded)
    assert counts(closed) == (3, 3, 0, 2)
    assert [r["agent_name"] for r in closed["agent_results"]] == ["first", "second", "third"]
    assert [attempts(registry, name) for name in ("first", "second", "third")] == [2, 2, 1]
    assert operations(registry, "first", "success") == 1


def test_an_agent_that_the_last_attempt_does_not_reach_counts_as_it_ended(
    recorded: Deliver,
) -> None:
    early, late = Scripted(1, OSError("y")), Scripted(OSError("x"))
    first, second = traced_agent("first")(lambda: early()), traced_agent("second")(lambda: late())

    @retry(2, strategy=fixed_delay(0))
    def flow() -> None:
        first()
        second()

    @traced_pipeline("p")
    def run() -> None:
        with pytest.raises(OSError, match="y"):
            flow()

    run()
    closed = pipeline_of(recorded)
    assert counts(closed) == (2, 0, 2, 1)


def test_retries_within_retries(recorded: Deliver, registry: CollectorRegistry) -> None:
    script = Scripted(OSError(1), OSError(2), OSError(3), "done")
    twice = retry(2, strategy=fixed_delay(0))
    call = twice(traced_agent("a")(twice(lambda: script())))
    traced_pipeline("p")(lambda: call())()
    assert counts(pipeline_of(recorded)) == (1, 1, 0, 1)
    assert attempts(registry, "a") == 4
    assert operations(registry, "a", "success") == 1


def test_agents_side_by_side_in_an_attempt_are_repeated_each(recorded: Deliver) -> None:
    scripts = [Scripted(OSError(n), "done") for n in range(5)]

    @traced_agent("a")
    async def agent(script: Scripted) -> str:
        await asyncio.sleep(0)
        return script()

    @ours
    async def flow() -> None:
        results = await asyncio.gather(*map(agent, scripts), return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    @traced_pipeline("p")
    async def run() -> None:
        await flow()

    asyncio.run(run())
    assert counts(pipeline_of(recorded)) == (5, 5, 0, 5)


def test_threads_that_carry_the_run_count_alike(recorded: Deliver) -> None:
    def one(number: int) -> None:
        script = Scripted(*[OSError()] * (number % 3), "done")
        ours(traced_agent("a")(lambda: script()))()

    @traced_pipeline("p")
    def run() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(carry(one), range(60)))

    run()
    assert counts(pipeline_of(recorded)) == (60, 60, 0, 40)


def test_an_announced_attempt_that_never_came_does_not_swallow_a_later_failure(
    recorded: Deliver,
) -> None:
    """tenacity's hook announces another attempt, and its wait is interrupted."""

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    @traced_agent("a")
    def agent() -> None:
        raise OSError("x")

    @traced_pipeline("p")
    def run() -> None:
        loop = tenacity.retry(before_sleep=before_sleep(), sleep=interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop(agent)()
        with pytest.raises(OSError, match="x"):
            agent()

    run()
    assert counts(pipeline_of(recorded)) == (2, 0, 2, 0)


def spend(cost: float) -> None:
    with traced_llm("m", provider="q"):
        current_execution().set(llm_cost_usd=cost)


def wasted(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["agent_name"], sample.labels["cause"]): round(sample.value, 9)
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "tracereel_agent_wasted_cost_usd_total"
    }


def total(registry: CollectorRegistry) -> float:
    return round(
        sum(
            sample.value
            for metric in registry.collect()
            for sample in metric.samples
            if sample.name == "tracereel_agent_cost_usd_total"
        ),
        9,
    )


def test_failed_attempts_inside_an_agent_are_waste(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    script = Scripted(OSError("x"), OSError("y"), "done")

    @traced_agent("a")
    @ours
    def call() -> str:
        spend(0.25)
        return script()

    call()
    events = recorded()
    assert wasted(registry) == {("a", "attempt"): 0.5}
    assert total(registry) == 0.75
    assert events[-1]["wasted_cost_usd"] == pytest.approx(0.5)
    assert [e["wasted_cost_usd"] for e in events if "retry_attempt" in e] == [0.25, 0.25]


def test_an_agent_that_fails_wastes_all_it_spent_and_its_attempts_are_not_added(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    @traced_agent("a")
    @ours
    def call() -> None:
        spend(0.25)
        raise OSError("x")

    with pytest.raises(OSError, match="x"):
        call()
    recorded()
    assert wasted(registry) == {("a", "failed"): 0.75}
    assert total(registry) == 0.75


def test_around_an_agent_each_attempt_is_wasted_once(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    sure = Scripted(0.1, 0.9)

    @retry(3, strategy=fixed_delay(0), min_confidence=0.5)
    @traced_agent("a")
    def call() -> None:
        spend(0.25)
        current_execution().set(confidence=sure())

    call()
    (event,) = [e for e in recorded() if "retry_attempt" in e]
    assert event["wasted_cost_usd"] == 0.25
    assert wasted(registry) == {("a", "attempt"): 0.25}
    assert total(registry) == 0.5


def test_around_an_agent_that_fails_each_failure_is_its_own(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    script = Scripted(OSError("x"), "done")

    @ours
    @traced_agent("a")
    def call() -> str:
        spend(0.25)
        return script()

    call()
    (event,) = [e for e in recorded() if "retry_attempt" in e]
    assert event["wasted_cost_usd"] == 0.25
    assert wasted(registry) == {("a", "failed"): 0.25}


def test_cost_of_an_abandoned_route_counts_as_waste(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    """The primary retries inside, calls another agent, and a fallback takes over."""

    @traced_agent("helper")
    def helper() -> None:
        spend(0.5)

    @retry(2, strategy=fixed_delay(0))
    def primary() -> None:
        helper()
        spend(0.125)
        raise OSError("x")

    def backup() -> None:
        spend(0.0625)

    @traced_agent("a")
    def call() -> None:
        fallback(to=backup)(primary)()

    call()
    events = recorded()
    assert wasted(registry) == {("helper", "attempt"): 1.0, ("a", "route"): 0.25}
    assert total(registry) == 1.0 + 0.25 + 0.0625
    (event,) = [e for e in events if e["event_type"] == "agent.fallback.triggered"]
    assert event["wasted_cost_usd"] == pytest.approx(1.25), "with the agents that ran in it"


@pytest.mark.parametrize("backup_works", [True, False])
def test_a_result_that_was_not_good_enough_is_waste_only_when_it_is_replaced(
    recorded: Deliver, registry: CollectorRegistry, backup_works: bool
) -> None:
    @traced_agent("primary")
    def primary() -> int:
        spend(0.5)
        return 1

    @traced_agent("backup")
    def backup() -> int:
        spend(0.25)
        if not backup_works:
            raise OSError("x")
        return 2

    assert fallback(to=backup, when=lambda result: result == 1)(primary)() == 1 + backup_works
    recorded()
    expected = {("primary", "route"): 0.5} if backup_works else {("backup", "failed"): 0.25}
    assert wasted(registry) == expected


def test_waste_is_never_more_than_what_was_spent(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    """The agent reports its own cost, which is less than that of its calls."""
    script = Scripted(OSError("x"), "done")

    @traced_agent("a")
    @ours
    def call() -> str:
        spend(0.5)
        current_execution().set(llm_cost_usd=0.25)
        return script()

    call()
    recorded()
    assert wasted(registry) == {("a", "attempt"): 0.25}


def failing(name: str) -> Callable[[], None]:
    @traced_agent(name)
    def fail() -> None:
        raise OSError(name)

    return fail


@pytest.mark.parametrize("retried", [False, True])
def test_a_primary_that_its_fallback_replaced_has_not_failed(
    recorded: Deliver, *, retried: bool
) -> None:
    primary = ours(failing("a")) if retried else failing("a")
    traced_pipeline("p")(fallback(traced_agent("b")(lambda: 1))(primary))()
    closed = pipeline_of(recorded)
    assert counts(closed) == (2, 1, 0, int(retried))
    assert (closed["agents_replaced"], closed["status"]) == (1, "partial_success")
    results = [(r["status"], r.get("replaced")) for r in closed["agent_results"]]
    assert results == [("failed", True), ("success", None)]


def test_a_primary_whose_fallback_fails_too_has_failed(recorded: Deliver) -> None:
    @traced_pipeline("p")
    def run() -> None:
        with pytest.raises(OSError, match="a"):
            fallback(failing("b"))(failing("a"))()

    run()
    closed = pipeline_of(recorded)
    assert (counts(closed), closed["agents_replaced"]) == ((2, 0, 2, 0), 0)


def test_a_replaced_primary_that_is_repeated_counts_as_it_ended_last(recorded: Deliver) -> None:
    script = Scripted(OSError("x"), "done")

    @ours
    def flow() -> None:
        fallback(traced_agent("b")(lambda: 1))(failing("a"))()
        script()

    traced_pipeline("p")(flow)()
    closed = pipeline_of(recorded)
    assert (counts(closed), closed["agents_replaced"]) == ((2, 1, 0, 2), 1)
