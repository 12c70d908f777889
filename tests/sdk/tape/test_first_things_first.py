"""The first difference is reported first (in strict mode alone), despite concurrent work."""

import asyncio
import threading
from typing import Any
from uuid import uuid4

import pytest

import tracereel
from tracereel import traced_agent, traced_decision, traced_llm, traced_step, traced_tool
from tracereel.integrations import mcp as mcp_integration
from tracereel.tape import DivergenceError, Override, divergence, fork

changes: set[str] = set()


@pytest.fixture(autouse=True)
def _unchanged() -> Any:
    changes.clear()
    yield
    changes.clear()


@traced_tool("fetch", effect="read")
async def fetch(url: str) -> str:
    await asyncio.sleep(0.01)
    return f"text of {url}"


@traced_tool("weather", effect="read")
def weather(place: str) -> str:
    return f"sunny in {place}"


@traced_llm("writer")
def write(prompt: str) -> str:
    return f"an answer to {prompt}"


@traced_agent("reader")
async def reader(topic: str) -> str:
    return await fetch(topic + ("?" if "prompt" in changes else ""))


@traced_agent("readers")
async def readers() -> Any:
    return await asyncio.gather(*(reader(f"{n}") for n in range(4)), return_exceptions=True)


@traced_agent("reporter")
def reporter() -> str:
    place = write("where?")
    seen = "no idea" if "missing" in changes else weather(place)
    return write(f"say {seen}")


def run_whole(function: Any) -> None:
    result = function()
    if asyncio.iscoroutine(result):
        asyncio.run(result)


def left(tape: Any, function: Any, **options: Any) -> Any:
    """Return the report of a strict replay that diverges."""
    run = tracereel.replay(tape, **options)
    with pytest.raises(DivergenceError), run:
        run_whole(function)
    return run.report


def report(tape: Any, function: Any, **options: Any) -> Any:
    """Return the report of a replay that collects all differences."""
    with tracereel.replay(tape, mode="report", **options) as run:
        run_whole(function)
    return run.report


def test_strict_replay_reports_only_the_first_divergence_even_if_swallowed(
    taped: Any,
) -> None:
    _, tape = taped(lambda: asyncio.run(readers()))
    changes.add("prompt")

    found = left(tape, readers)
    assert [each.kind for each in found.divergences] == ["changed"]
    assert found.divergences[0].path == "readers / reader / fetch"

    assert [each.kind for each in report(tape, readers).divergences] == ["changed"] * 4


def test_threads_beside_a_divergence_get_no_further_and_are_not_waited_for(taped: Any) -> None:
    @traced_agent("threads")
    def threads() -> None:
        def work(number: int) -> None:
            try:
                write(f"{number}{'?' if 'prompt' in changes else ''}")
            except DivergenceError:
                return

        started = [
            threading.Thread(target=tracereel.carry(work), args=(number,)) for number in range(4)
        ]
        for each in started:
            each.start()
        for each in started:
            each.join()

    _, tape = taped(threads)
    changes.add("prompt")

    assert [each.kind for each in left(tape, threads).divergences] == ["changed"]


def test_missing_call_is_reported_before_the_prompt_it_changes(taped: Any) -> None:
    _, tape = taped(reporter)
    changes.add("missing")

    found = report(tape, reporter).divergences
    assert [(each.kind, each.name, each.position) for each in found] == [
        ("missing", "weather", 2),
        ("changed", "writer", 2),
    ]
    assert "reporter / writer #2 was called in its place" in found[0].detail
    assert 'weather(place="an answer to where?")' in found[0].detail
    assert [each.name for each in left(tape, reporter).divergences] == ["weather"]


@traced_agent("beating")
async def beating(numbers: list[int]) -> list[str]:
    async def beat() -> None:
        while True:
            await asyncio.sleep(0.5)
            beats.append(0)

    beats: list[int] = []
    heart = asyncio.create_task(beat())
    try:
        return await asyncio.gather(*(fetch(f"{number}") for number in numbers))
    finally:
        heart.cancel()


def test_a_missing_call_does_not_keep_others_waiting_while_timers_go_on(taped: Any) -> None:
    _, tape = taped(lambda: asyncio.run(beating([0, 1, 2])))
    with tracereel.replay(tape, mode="report") as run:
        result = asyncio.run(beating([0, 2]))

    assert result == ["text of 0", "text of 2"]
    assert [(each.kind, each.path) for each in run.report.divergences] == [
        ("missing", "beating / fetch #2"),
        ("output", "beating"),
    ]


def test_a_missing_call_does_not_make_the_time_limits_of_others_run_out(taped: Any) -> None:
    @traced_agent("limited")
    async def limited(numbers: list[int]) -> list[str]:
        limits = (asyncio.wait_for(fetch(f"{number}"), 5) for number in numbers)
        return await asyncio.gather(*limits)

    _, tape = taped(lambda: asyncio.run(limited([0, 1, 2])))
    with tracereel.replay(tape, mode="report") as run:
        result = asyncio.run(limited([1, 2]))

    assert result == ["text of 1", "text of 2"]
    assert [each.kind for each in run.report.divergences] == ["missing", "output"]


@pytest.mark.parametrize("mode", ["strict", "report"])
@pytest.mark.parametrize("prompt", ["", "?"])
def test_run_that_waits_for_a_missing_call_ends_and_names_it(
    taped: Any, mode: Any, prompt: str
) -> None:
    @traced_agent("poller")
    async def poller(count: int, prompt: str = "") -> int:
        found: list[str] = []

        async def work() -> None:
            for number in range(count):
                text = await fetch(f"{number}{prompt}")
                found.append(text)

        task = asyncio.create_task(work())
        while len(found) < 2:  # noqa: ASYNC110 - as programs do
            await asyncio.sleep(1)
        await task
        return len(found)

    _, tape = taped(lambda: asyncio.run(poller(2)))
    run = tracereel.replay(tape, mode=mode, stall_seconds=0.2)
    with pytest.raises(DivergenceError), run:
        asyncio.run(poller(1, prompt))

    told = [(each.kind, each.path) for each in run.report.divergences]
    expected = [("changed", "poller / fetch")] if prompt else []
    expected += [("missing", "poller / fetch #2"), ("stalled", "the run")]
    assert told == (expected[:1] if mode == "strict" else expected)


def test_calls_of_the_tape_are_numbered_as_those_of_the_run(taped: Any) -> None:
    @traced_agent("asker")
    def asker(number: int, skip: int) -> None:
        with traced_step("look"):
            write("one")
            if number != skip:
                weather("two")

    @traced_agent("outer")
    def outer(skip: int = -1) -> None:
        for number in range(3):
            asker(number, skip)

    _, tape = taped(outer)
    found = report(tape, lambda: outer(2), compare_output=False).divergences

    assert [each.path for each in found] == ["outer / asker #3 / look / weather"]


def test_reordered_calls_are_identified_by_their_arguments(taped: Any) -> None:
    @traced_agent("swapper")
    def swapper(places: list[str]) -> None:
        for place in places:
            weather(place)

    _, tape = taped(lambda: swapper(["Lima", "Oslo"]))
    found = report(tape, lambda: swapper(["Oslo", "Lima"])).divergences

    assert [each.kind for each in found] == ["out of order"]
    assert 'swapper / weather, as weather(place="Oslo"), was called in its place' in found[0].detail
    assert 'on the tape it was weather(place="Lima")' in found[0].detail


def test_note_that_the_run_stopped_appears_once(taped: Any) -> None:
    @traced_agent("few")
    async def few() -> None:
        if "extra" in changes:
            await asyncio.gather(*(fetch(f"{n}") for n in range(5)), return_exceptions=True)

    _, tape = taped(lambda: asyncio.run(few()))
    changes.add("extra")
    found = report(tape, few)

    assert len(found.divergences) == 5
    assert [note for note in found.notes if "no further" in note] == [
        "Note: the run went no further: the tape has nothing to give for few / fetch."
    ]


def test_ids_and_times_inside_a_prompt_are_recognised(taped: Any) -> None:
    @traced_agent("dated")
    def dated(day: str) -> None:
        write(f"Today is {day}. Request {uuid4()}: be brief.")

    _, tape = taped(lambda: dated("2026-11-16"))
    told = str(report(tape, lambda: dated("2026-11-17")))

    assert "ids and times are new in every run, unless a traced tool gives them" in told
    assert "--freeze" in told


def test_the_code_of_a_function_that_makes_the_object_is_not_taken_for_the_recorded_one(
    taped: Any,
) -> None:
    class Clerk:
        @traced_agent("clerk")
        def handle(self, text: str) -> str:
            return write(text)

    def make(text: str) -> str:
        return Clerk().handle(text)

    _, tape = taped(lambda: make("hello"))
    with tracereel.replay(tape) as run:
        run.call(make)

    assert run.report.identical
    assert run.report.notes == []


def test_argument_override_of_a_served_call_is_noted_as_fork_only(taped: Any) -> None:
    _, tape = taped(reporter)
    for target in ("writer", 1):
        overrides = [Override(target, arguments={"prompt": "something else"})]
        found = report(tape, reporter, overrides=overrides)

        assert len(found.notes) == 1
        assert found.notes[0].startswith(f"Note: {target!r} was served, not made")
        assert found.notes[0].endswith("in a fork (--fork).")


def test_replay_of_a_branch_notes_the_forced_decision(taped: Any) -> None:
    @traced_decision("route", candidates=["bill", "tech"])
    def route() -> str:
        return write("route").partition(" ")[0]

    @traced_agent("desk")
    def desk() -> str:
        return weather(route())

    _, tape = taped(desk)
    with fork(tape, overrides=[Override("route", chosen="tech")]) as branch:
        desk()

    found = left(branch.tape, desk)
    assert len(found.notes) == 1
    assert "the decision route was forced" in found.notes[0]
    assert found.notes[0].endswith("--choose 'route=\"tech\"'.")
    with tracereel.replay(branch.tape, overrides=[Override("route", chosen="tech")]) as run:
        desk()
    assert run.report.identical


def test_the_line_of_a_call_is_never_one_of_the_recorder() -> None:
    found: list[str | None] = []

    def work(function: Any) -> None:
        found.append(divergence.location(function))

    code = work.__code__.replace(co_filename=f"{divergence._OWN}/here.py")
    ours = type(work)(code, {**globals()}, "work", None, work.__closure__)
    for function in (mcp_integration.wrap, reporter.__wrapped__):
        thread = threading.Thread(target=ours, args=(function,))
        thread.start()
        thread.join()

    assert found[0] is None
    assert found[1] is not None
    assert found[1].endswith("in reporter, run in a thread")


class Document:
    """Class that the codec does not support."""

    def __init__(self, text: str) -> None:
        self.text = text


def test_objects_of_which_only_the_type_is_compared_are_named(taped: Any) -> None:
    @traced_agent("files")
    def files(text: str) -> Document:
        weather(Document(text))
        weather(lambda: None)
        return Document(text)

    _, tape = taped(lambda: files("one"))
    found = report(tape, lambda: files("two"))

    known = f"{__name__}:Document is of a type that is not known (tracereel.tape.register)."
    assert f"Note: an argument of weather is compared by its type only: {known}" in found.notes
    # The result of the run is compared by its attributes.
    assert [str(each) for each in found.divergences[0].differences] == ['text: "one" → "two"']


def test_result_missing_on_the_tape_is_reported_on_use(taped: Any) -> None:
    @traced_tool("open", effect="read")
    def opened() -> Document:
        return Document("one")

    @traced_agent("files")
    def files() -> str:
        return opened().text

    _, tape = taped(files)
    run = tracereel.replay(tape)
    with pytest.raises(DivergenceError), run:
        files()

    assert f"there is no 'text': this stands for {__name__}:Document" in str(run.report)


@pytest.mark.parametrize(("recorded", "now"), [(1, True), ({"a": [1]}, {"a": [1.0]})])
def test_numbers_that_only_python_takes_for_the_same_are_differences(
    taped: Any, recorded: Any, now: Any
) -> None:
    decide = traced_decision("number", candidates=[])(lambda value: value)

    @traced_agent("counter")
    def counter(value: Any) -> Any:
        return decide(value)

    _, tape = taped(lambda: counter(recorded))
    found = report(tape, lambda: counter(now)).divergences

    assert [(each.kind, len(each.differences)) for each in found] == [
        ("decision", 1),
        ("output", 1),
    ]
