"""Demo SSE agent for questions about labour law, with threads, tools and a round limit.

The model is scripted. The decorator records the run from its frames; the tools are traced
retrievals (`tracereel.demo.law_library`). Threads are entered through `boundary`, so a replay serves
them too.
"""

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import tracereel
from tracereel.demo.law_library import LawLibrary
from tracereel.demo.scripted_model import MODEL, PROVIDER
from tracereel.integrations.sse import traced_sse
from tracereel.tape import boundary

AGENT_NAME: Final = "labour_law_expert"
ROUND_LIMIT: Final = 6
TIME_LIMIT_SECONDS: Final = 300.0
MAX_THREADS: Final = 1_000
TOKEN_SECONDS: Final = 0.005


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
                ("search_normativa", {"query": "parental leave", "top_k": 4}),
                ("get_article", {"article_number": "48", "law_name": "Workers' Statute"}),
                ("get_related_chunks", {"chunk_id": 48}),
            ),
            "Sixteen weeks for each parent, the first six right after the birth.",
        ),
        UserQuestion(
            "And if I am self-employed?",
            (
                ("search_normativa", {"query": "self-employed parent"}),
                ("search_sentencias", {"query": "self-employed leave"}),
            ),
            "The same sixteen weeks; the benefit comes from social security.",
        ),
    ),
    (
        UserQuestion(
            "Which holidays may my employer refuse?",
            tuple(("search_normativa", {"query": f"holidays {n}"}) for n in range(1, 10)),
            "I found no rule on that; Art. 38 leaves the dates to an agreement.",
        ),
    ),
    (
        UserQuestion(
            "What is owed at the end of a contract?",
            (("search_normativa", {"query": "contract"}),),
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
        self.agent_id = f"agent_{uuid.uuid4().hex[:12]}"
        self._sleep = sleep
        self._library = LawLibrary(sleep)
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
            for found in self._library.call(tool, arguments):
                sources[found["id"]] = {key: found[key] for key in ("id", "law", "section")}
        if question.breaks is not None:
            yield frame("error", message=question.breaks, code="RUN_FAILED")
            return
        for word in question.answer.split(" "):
            self._sleep(TOKEN_SECONDS)
            yield frame("token", text=f"{word} ")
        yield frame("done", threadId=thread_id, sources=list(sources.values()))

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


class AgentManager:
    """Creates the agent with the first question and keeps it: one agent per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._agent: QuestionAgent | None = None
        self._process = 0

    def agent(self) -> QuestionAgent:
        """Return the agent of this process."""
        with self._lock:
            if self._agent is None or self._process != os.getpid():
                self._agent, self._process = QuestionAgent(), os.getpid()
            return self._agent


MANAGER: Final = AgentManager()
_on_duty: ContextVar[QuestionAgent | None] = ContextVar("tracereel_demo", default=None)


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
    agent = _on_duty.get() or MANAGER.agent()
    yield from agent.answer(message, thread_id)


def frame(event: str, **data: Any) -> str:
    """Return an SSE frame."""
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
