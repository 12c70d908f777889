"""Requests for the demo orchestrator and the scripted models that respond to them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from tracereel.demo.scripted_model import MODEL, PROVIDER
from tracereel.tape import boundary

MAX_ITERATIONS: Final = 10
ORDERS: Final = "orders_agent"
DOCUMENTS: Final = "documents_agent"
GENERAL: Final = "general_agent"
MODEL_SECONDS: Final = 0.03

Step = str | tuple[str, dict[str, Any]]
"""Model output: a text, or a tool and its arguments."""


@dataclass(frozen=True, slots=True)
class OrchestratorRequest:
    """One request and the scripted model output."""

    prompt: str
    agent: str
    steps: Sequence[Step]
    attachments: tuple[str, ...] = ()
    routed: str | None = None
    """Output of the router's model, if it is called."""


REQUESTS: Final = (
    OrchestratorRequest(
        "/orders what is open for Contoso?",
        ORDERS,
        (
            ("find_orders", {"customer": "Contoso"}),
            ("get_invoice", {"order": "1042"}),
            "Order 1042 is shipped and paid; order 1077 waits for stock.",
        ),
    ),
    OrchestratorRequest(
        "is the invoice of 1077 paid?",
        ORDERS,
        (("get_invoice", {"order": "1077"}), "Yes, 180.00 EUR."),
    ),
    OrchestratorRequest(
        "what does this say about returns?",
        DOCUMENTS,
        (("search_documents", {"query": "returns"}), "Thirty days, unopened."),
        attachments=("returns.pdf",),
    ),
    OrchestratorRequest(
        "hello, what can you do?", GENERAL, ("Orders and documents.",), routed=GENERAL
    ),
    OrchestratorRequest(
        "how long do I have to send something back?",
        DOCUMENTS,
        (("search_documents", {"query": "send back"}), "Thirty days."),
        routed=DOCUMENTS,
    ),
    OrchestratorRequest(
        "/docs everything on everything",
        DOCUMENTS,
        tuple(("search_documents", {"query": f"part {n}"}) for n in range(MAX_ITERATIONS + 1)),
    ),
)


class ScriptedChatModel(BaseChatModel):
    """LangChain chat model that returns scripted steps."""

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
        # Count previous responses, because a fork may start in the middle.
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
    """Return the models of one request, by agent name."""
    request = next((each for each in REQUESTS if each.prompt == prompt), REQUESTS[0])
    return {
        request.agent: ScriptedChatModel(steps=request.steps, nap=nap),
        "router": ScriptedChatModel(steps=[request.routed or GENERAL], nap=nap),
    }
