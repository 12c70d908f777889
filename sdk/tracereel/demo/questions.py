"""Demo SSE agent for questions about labour law, with threads, tools and a round limit.

The model is scripted. Recording needs only the decorator; everything else is read from the frames.
Threads and tools are called through `boundary`, so a replay serves their results.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import tracereel
from tracereel.demo.scripted_model import MODEL, PROVIDER
from tracereel.integrations.sse import traced_sse
from tracereel.tape import boundary

AGENT_NAME: Final = "labour_law_expert"
ROUND_LIMIT: Final = 6
TIME_LIMIT_SECONDS: Final = 300.0
MAX_THREADS: Final = 1_000
TOOL_SECONDS: Final = 0.03
TOKEN_SECONDS: Final = 0.005

LIBRARY: Final[tuple[dict[str, Any], ...]] = (
    {"id": 48, "law": "Workers' Statute", "section": "Art. 48", "refs": [177], "about": "leave"},
    {"id": 177, "law": "Social Security Act", "section": "Art. 177", "refs": [], "about": "leave"},
    {"id": 318, "law": "Social Security Act", "section": "Art. 318", "refs": [], "about": "self"},
    {"id": 38, "law": "Workers' Statute", "section": "Art. 38", "refs": [], "about": "holidays"},
)


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """One question, the tools that the model calls, and its response."""

    text: str
    tools: Sequence[tuple[str, dict[str, Any]]]
    answer: str
    breaks: str | None = None
    """Error message instead of a response."""


CONVERSATIONS: Final[tuple[tuple[UserQuestion, ...], ...]] = (
    (
        UserQuestion(
            "How many weeks of parental leave are there?",
            (
                ("search_rules", {"query": "leave"}),
                ("get_related", {"chunk_id": 48}),
            ),
            "Sixteen weeks for each parent, the first six right after the birth.",
        ),
        UserQuestion(
            "And if I am self-employed?",
            (("search_rules", {"query": "self"}),),
            "The same sixteen weeks; the benefit comes from social security.",
        ),
    ),
    (
        UserQuestion(
            "Which holidays may my employer refuse?",
            tuple(("search_rules", {"query": f"holidays {n}"}) for n in range(1, 10)),
            "I found no rule on that; Art. 38 leaves the dates to an agreement.",
        ),
    ),
    (
        UserQuestion(
            "What is owed at the end of a contract?",
            (("search_rules", {"query": "contract"}),),
            "",
            breaks="the run failed: the model is overloaded",
        ),
    ),
)


class QuestionAgent:
    """Agent with threads, tools and a scripted model."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sleep = sleep
        self._clock = clock
        self._threads: dict[str, list[str]] = {}
        self._known = {question.text: question for each in CONVERSATIONS for question in each}
        self.trace_id: str | None = None
        """Trace id of the latest question."""

    def history(self, thread_id: str) -> list[str]:
        """Return the questions of a thread so far."""
        return list(self._threads.get(thread_id, ()))

    def answer(self, message: str, thread_id: str | None) -> Iterator[str]:
        """Yield response frames; continue the given thread or start a new one."""
        self.trace_id = tracereel.current_execution().trace_id or None
        question = self._known.get(message)
        if question is None:
            yield frame("error", message="this scripted model does not know the question")
            return
        asked = {"thread_id": thread_id, "message": message}
        found = boundary(
            "threads", "tool", asked, lambda: self._enter(thread_id, message), effect="write"
        )
        if found is None:
            yield frame("error", message=f"there is no thread {thread_id}", code="NO_SUCH_THREAD")
            return
        yield from self._answer(question, found)

    def _answer(self, question: UserQuestion, thread_id: str) -> Iterator[str]:
        deadline = self._clock() + TIME_LIMIT_SECONDS
        sources: dict[int, dict[str, Any]] = {}
        for tool, arguments in question.tools[:ROUND_LIMIT]:
            if self._clock() > deadline:
                yield frame("error", message="five minutes are over", code="TIME_LIMIT")
                return
            yield frame("tool_status", tool=tool, args=arguments)
            for found in self._ask(tool, arguments):
                sources[found["id"]] = {key: found[key] for key in ("id", "law", "section")}
        if question.breaks is not None:
            yield frame("error", message=question.breaks, code="RUN_FAILED")
            return
        for word in question.answer.split(" "):
            self._sleep(TOKEN_SECONDS)
            yield frame("token", text=f"{word} ")
        yield frame("done", threadId=thread_id, sources=list(sources.values()))

    def _ask(self, tool: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = boundary(
            tool, "tool", arguments, lambda **other: self._call(tool, {**arguments, **other})
        )
        return found

    def _call(self, tool: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        self._sleep(TOOL_SECONDS)
        if tool == "get_related":
            wanted = {
                ref
                for each in LIBRARY
                if each["id"] == arguments["chunk_id"]
                for ref in each["refs"]
            }
            return [each for each in LIBRARY if each["id"] in wanted]
        return [each for each in LIBRARY if each["about"] in arguments["query"]]

    def _enter(self, thread_id: str | None, message: str) -> str | None:
        """Add a question to its thread; return its id, or `None` if unknown."""
        if thread_id is not None and thread_id not in self._threads:
            return None
        thread_id = thread_id or self._new_thread()
        self._threads[thread_id].append(message)
        return thread_id

    def _new_thread(self) -> str:
        thread_id = f"thread_{uuid.uuid4().hex[:12]}"
        self._threads[thread_id] = []
        if len(self._threads) > MAX_THREADS:
            del self._threads[next(iter(self._threads))]
        return thread_id


AGENT: Final = QuestionAgent()
_on_duty: ContextVar[QuestionAgent] = ContextVar("tracereel_demo", default=AGENT)


@contextmanager
def on_duty(agent: QuestionAgent) -> Iterator[None]:
    """Use an agent for all questions in the block."""
    token = _on_duty.set(agent)
    try:
        yield
    finally:
        _on_duty.reset(token)


@traced_sse(AGENT_NAME, llm_provider=PROVIDER, llm_model=MODEL, round_limit=ROUND_LIMIT)
def ask(message: str, thread_id: str | None = None) -> Iterator[str]:
    """Respond to a question in frames."""
    yield from _on_duty.get().answer(message, thread_id)


def frame(event: str, **data: Any) -> str:
    """Return an SSE frame."""
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
