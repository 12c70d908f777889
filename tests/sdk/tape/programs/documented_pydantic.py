"""Agent as pydantic-ai's documentation writes one, with a model that is a function."""

import asyncio
from typing import Any

from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from tracereel import traced_llm
from tracereel.integrations.pydantic_ai import TracereelCapability

changed: set[str] = set()
ran: list[str] = []


@traced_llm("scripted", provider="scripted")
def answer(texts: list[str]) -> dict[str, Any]:
    ran.append("model")
    if len(texts) == 1:
        return {"tool": "roll_dice", "sides": 6}
    return {"text": f"You rolled {texts[-1]}."}


def respond(messages: list[Any], _info: Any) -> ModelResponse:
    texts = [
        str(part.content)
        for message in messages
        for part in message.parts
        if part.part_kind in ("user-prompt", "tool-return")
    ]
    given = answer([each.upper() if "prompt" in changed else each for each in texts])
    if "tool" in given:
        return ModelResponse(
            parts=[ToolCallPart(given["tool"], {"sides": given["sides"]}, "call_1")]
        )
    return ModelResponse(parts=[TextPart(given["text"])])


agent = Agent(FunctionModel(respond), name="dice", capabilities=[TracereelCapability()])


@agent.tool_plain
def roll_dice(sides: int) -> str:
    """Roll a die."""
    ran.append("tool")
    return str(sides - 2)


@agent.output_validator
def validate(text: str) -> str:
    return text + "!" if "output" in changed else text


def main(question: str) -> Any:
    return asyncio.run(agent.run(question)).output
