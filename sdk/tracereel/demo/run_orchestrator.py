"""Sends one request after the other to the demo's LangGraph orchestrator, on scripted models."""

import itertools
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from tracereel.demo.orchestrator import (
    DOCUMENTS,
    GENERAL,
    MAX_ITERATIONS,
    ORDERS,
    TOO_MANY,
    Orchestrator,
    answer,
    on_duty,
)
from tracereel.demo.run import RunReport
from tracereel.demo.scripted_model import MODEL, PROVIDER
from tracereel.tape import boundary

MODEL_SECONDS: Final = 0.03

Step = str | tuple[str, dict[str, Any]]
"""What a model says: an answer, or a tool and its arguments."""


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody wants, and what the models will say about it."""

    prompt: str
    agent: str
    steps: Sequence[Step]
    attachments: tuple[str, ...] = ()
    routed: str | None = None
    """What the router's model says, where it is asked."""


REQUESTS: Final = (
    Request(
        "/orders what is open for Contoso?",
        ORDERS,
        (
            ("find_orders", {"customer": "Contoso"}),
            ("get_invoice", {"order": "1042"}),
            "Order 1042 is shipped and paid; order 1077 waits for stock.",
        ),
    ),
    Request(
        "is the invoice of 1077 paid?",
        ORDERS,
        (("get_invoice", {"order": "1077"}), "Yes, 180.00 EUR."),
    ),
    Request(
        "what does this say about returns?",
        DOCUMENTS,
        (("search_documents", {"query": "returns"}), "Thirty days, unopened."),
        attachments=("returns.pdf",),
    ),
    Request("hello, what can you do?", GENERAL, ("Orders and documents.",), routed=GENERAL),
    Request(
        "how long do I have to send something back?",
        DOCUMENTS,
        (("search_documents", {"query": "send back"}), "Thirty days."),
        routed=DOCUMENTS,
    ),
    Request(
        "/docs everything on everything",
        DOCUMENTS,
        tuple(("search_documents", {"query": f"part {n}"}) for n in range(MAX_ITERATIONS + 1)),
    ),
)


class ScriptedChatModel(BaseChatModel):
    """A chat model of LangChain that says what stands in its script, step by step."""

    steps: Sequence[Any]
    nap: Callable[[float], None]
    model: str = MODEL

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        del stop, kwargs
        return {"ls_provider": PROVIDER, "ls_model_name": self.model, "ls_model_type": "chat"}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager, kwargs
        asked = {"messages": [[message.type, message.content] for message in messages]}
        said: ChatResult = boundary(self.model, "llm", asked, lambda **_other: self._say(messages))
        return said

    def _say(self, messages: list[BaseMessage]) -> ChatResult:
        self.nap(MODEL_SECONDS)
        # By what was said so far: a fork begins in the midst of it.
        number = sum(isinstance(message, AIMessage) for message in messages)
        step = self.steps[number]
        asked = sum(len(str(message.content)) for message in messages) // 3 + 40
        calls = []
        if not isinstance(step, str):
            calls = [{"name": step[0], "args": step[1], "id": f"call_{number}"}]
        said = AIMessage(
            step if isinstance(step, str) else "",
            tool_calls=calls,
            response_metadata={"model_name": self.model},
            usage_metadata=UsageMetadata(
                input_tokens=asked, output_tokens=24, total_tokens=asked + 24
            ),
        )
        return ChatResult(generations=[ChatGeneration(message=said)])


def models_for(prompt: str, nap: Callable[[float], None] = time.sleep) -> dict[str, BaseChatModel]:
    """The models of one request, by the agents that ask them."""
    request = next((each for each in REQUESTS if each.prompt == prompt), REQUESTS[0])
    return {
        request.agent: ScriptedChatModel(steps=request.steps, nap=nap),
        "router": ScriptedChatModel(steps=[request.routed or GENERAL], nap=nap),
    }


def run_orchestrator(
    *,
    runs: int | None,
    interval: float,
    seed: int | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[RunReport]:
    """Send `runs` requests (None: for ever), `interval` seconds apart; all in turn, then any."""
    rng = random.Random(seed)  # noqa: S311 - a script, not a secret
    for number in itertools.count(1) if runs is None else range(1, runs + 1):
        if number > 1:
            sleep(interval)
        request = REQUESTS[number - 1] if number <= len(REQUESTS) else rng.choice(REQUESTS)
        orchestrator = Orchestrator(models_for(request.prompt, sleep))
        session_id = f"session_{uuid.uuid4().hex[:12]}"
        started = time.monotonic()
        with on_duty(orchestrator):
            said = answer(
                request.prompt, attachments=list(request.attachments), session_id=session_id
            )
        yield RunReport(
            number=number,
            trace_id=orchestrator.trace_id,
            outcome="limit reached" if said == TOO_MANY else f"answered by {request.agent}",
            seconds=time.monotonic() - started,
            prompt=request.prompt,
            failed=False,
        )
