"""Programs with decorators only: threads, tasks, retries, decisions, errors."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import tenacity

from tests.sdk.tape.programs.mutations import has, program, ran
from tracereel import (
    carry,
    current_execution,
    fallback,
    record_decision,
    retry,
    traced_agent,
    traced_decision,
    traced_llm,
    traced_pipeline,
    traced_retrieval,
    traced_step,
    traced_tool,
)
from tracereel.resilience import fixed_delay


@traced_llm("model", provider="scripted")
def ask(prompt: str, temperature: float = 0.0) -> str:
    ran.append("ask")
    return f"answer to {prompt[-30:]}"


@traced_llm("model", provider="scripted")
async def ask_later(prompt: str) -> str:
    ran.append("ask_later")
    await asyncio.sleep(0.001)
    return f"answer to {prompt[-30:]}"


@traced_tool("search", effect="read")
def search(query: str, limit: int = 3) -> list[str]:
    ran.append("search")
    return [f"{query} {number}" for number in range(limit)]


@traced_tool("send", effect="irreversible")
def send(to: str, text: str) -> str:
    ran.append("send")
    return f"sent to {to}"


@program("pool", "step", "variable", question="changed", fewer="changed")
@traced_agent("researcher")
def research() -> list[str]:
    """Search in a pool of threads and summarise."""
    topics = ["tea", "mugs", "rain"][: 2 if has("fewer") else 3]
    suffix = " now" if has("question") else ""
    with ThreadPoolExecutor(1 if has("pool") else 3) as pool:
        found = list(pool.map(carry(lambda topic: search(topic + suffix)), topics))
    with traced_step("sum up") if has("step") else nullcontext():
        if has("variable"):
            hits = [line for lines in found for line in lines]
            return [ask(" ".join(hits))]
        return [ask(" ".join(line for lines in found for line in lines))]


@program("pool", "step", prompt="prompt_changed", output="changed", more="changed")
def gather() -> list[str]:
    """Ask in tasks with a limit."""
    return asyncio.run(_gather())


@traced_agent("gatherer")
async def _gather() -> list[str]:
    limit = asyncio.Semaphore(1 if has("pool") else 4)

    async def one(number: int) -> str:
        async with limit:
            with traced_step("ask") if has("step") else nullcontext():
                return await ask_later(f"{'Please: ' if has('prompt') else ''}question {number}")

    count = 6 if has("more") else 5
    answers = await asyncio.gather(*(one(number) for number in range(count)))
    return sorted(answers, reverse=has("output"))


attempts = iter(())


@traced_tool("flaky", effect="read")
def flaky(number: int) -> int:
    ran.append("flaky")
    if next(attempts, 0):
        raise ConnectionError("try again")
    return number * 2


@program("step", attempts="changed", argument="changed", given_up="changed")
def retried() -> Any:
    """Retry a tool with our decorator, and fall back."""
    global attempts
    attempts = iter((1, 1, 0))
    return _retried()


def _flaky(number: int) -> int:
    return flaky(number)


@traced_agent("stubborn")
def _retried() -> Any:
    most = 1 if has("given_up") else 3
    call = retry(attempts=most, strategy=fixed_delay(0.0))(_flaky)
    if has("attempts"):
        call = retry(attempts=2, strategy=fixed_delay(0.0))(_flaky)
    with traced_step("try") if has("step") else nullcontext():
        try:
            return call(8 if has("argument") else 7)
        except ConnectionError as error:
            return str(error)


@program("variable", predicate="changed", argument="changed")
def tenacious() -> Any:
    """Retry a tool with tenacity."""
    global attempts
    attempts = iter((1, 0))
    return _tenacious()


@traced_agent("tenacious")
def _tenacious() -> Any:
    kinds: Any = KeyError if has("predicate") else ConnectionError
    for attempt in tenacity.Retrying(
        stop=tenacity.stop_after_attempt(3),
        retry=tenacity.retry_if_exception_type(kinds),
        reraise=True,
    ):
        with attempt:
            if has("variable"):
                doubled = flaky(3)
                return doubled + 1
            return flaky(4 if has("argument") else 3) + 1
    return None


@dataclass(frozen=True)
class Ticket:
    """Ticket of a customer."""

    text: str
    amount: float
    urgent: bool = False


@traced_decision("routing")
def route(ticket: Ticket) -> str:
    limit = 5.0 if has("threshold") else 100.0
    return "human" if ticket.amount > limit else "robot"


@program(
    "step",
    "variable",
    threshold="changed",
    confidence="changed",
    recipient="changed",
    skipped="changed",
)
@traced_pipeline("support")
def support() -> str:
    """Route a ticket and answer it."""
    ticket = Ticket("where is my mug", 20.0)
    with traced_step("route") if has("step") else nullcontext():
        who = route(ticket)
    record_decision("tone", chosen="kind", confidence=0.5 if has("confidence") else 0.9)
    reply = ask(ticket.text)
    if has("variable"):
        address = f"desk of {who}"
        return send(address, reply)
    if has("skipped"):
        return "nothing sent"
    return send(f"desk of {'x' if has('recipient') else who}", reply)


@traced_agent("primary")
def primary(text: str) -> str:
    if has("recovers"):
        return ask(text)
    raise TimeoutError("too slow")


@traced_agent("secondary")
def secondary(text: str) -> str:
    return ask(f"{text} briefly" if has("prompt") else text)


@program("step", recovers="changed", prompt="prompt_changed")
@traced_pipeline("with fallback")
def falls_back() -> str:
    """Use another agent when the first fails."""
    with traced_step("both") if has("step") else nullcontext():
        return fallback(secondary)(primary)("tea")


@traced_retrieval("passages")
def passages(query: str, top: int = 2, **filters: str) -> list[dict[str, Any]]:
    ran.append("passages")
    return [{"text": f"{query} {number}", "score": 1 / (1 + number)} for number in range(top)]


@program("default", "step", "variable", top="changed", filter="changed", prompt="prompt_changed")
@traced_agent("librarian")
def librarian() -> dict[str, Any]:
    """Answer from passages."""
    if has("default"):
        found = passages("mugs", 2)
    elif has("filter"):
        found = passages("mugs", language="es")
    else:
        found = passages("mugs", top=4 if has("top") else 2)
    context = "\n".join(each["text"] for each in found if each["score"] > 0.4)
    with traced_step("answer") if has("step") else nullcontext():
        said = ask(f"{'Cite. ' if has('prompt') else ''}{context}", temperature=0.0)
    return {"answer": said, "sources": len(found)}


@traced_llm("model", provider="scripted")
def stream(prompt: str) -> Iterator[str]:
    ran.append("stream")
    yield from prompt.split()


@program("variable", stops="changed", prompt="prompt_changed", case="changed")
@traced_agent("teller")
def teller() -> str:
    """Read a stream."""
    heard: list[str] = []
    for part in stream(f"{'once ' if has('prompt') else ''}upon a time there was"):
        heard.append(part.upper() if has("case") else part)
        if has("stops") and len(heard) == 2:
            break
    separator = " "
    return (" " if has("variable") else separator).join(heard)


@traced_agent("scorer")
def scorer(text: str) -> float:
    score = len(search(text)) / (4 if has("scale") else 5)
    execution = current_execution()
    assert execution is not None
    execution.set(confidence=score)
    return score


@program("step", scale="changed", raises="changed")
@traced_pipeline("graded")
def graded() -> str:
    """Ignore the score of an agent, which fails or changes."""
    try:
        with traced_step("score") if has("step") else nullcontext():
            scorer("tea")
            if has("raises"):
                raise ValueError("no grade")
    except KeyError:
        return "none"
    return "graded"


@traced_tool("slow", effect="read")
async def slow(number: int) -> int:
    ran.append("slow")
    await asyncio.sleep(0.05 * number)
    return number


@program("step", patient="changed", caught="changed", argument="changed")
def limited() -> Any:
    """Give a tool a time limit that it does not meet."""
    return asyncio.run(_limited())


@traced_agent("hurried")
async def _limited() -> Any:
    with traced_step("wait") if has("step") else nullcontext():
        first = await slow(1)
        try:
            work = slow(19 if has("argument") else 20)
            return first + await (work if has("patient") else asyncio.wait_for(work, 0.1))
        except TimeoutError:
            if has("caught"):
                return "given up"
            return await ask_later("instead")
