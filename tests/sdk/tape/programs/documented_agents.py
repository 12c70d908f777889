"""Agent as the documentation of OpenAI's Agents SDK writes one, with a scripted model."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from tracereel import traced_llm
from tracereel.integrations import openai_agents

changed: set[str] = set()
ran: list[str] = []


@traced_llm("scripted", provider="scripted")
def answer(instructions: str, items: list[Any]) -> dict[str, Any]:
    ran.append("model")
    results = [each for each in items if each.get("type") == "function_call_output"]
    if not results:
        return {"tool": "get_weather", "arguments": '{"city": "Lima"}'}
    return {"text": f"It is {results[-1]['output']} in Lima."}


class Scripted(Model):
    """Model that calls the tool once and then answers."""

    async def get_response(self, system_instructions: Any, *args: Any, **options: Any) -> Any:
        asked = args[0] if args else options["input"]
        items = [{"type": "message", "content": asked}] if isinstance(asked, str) else list(asked)
        given = answer(str(system_instructions), [dict(each) for each in items])
        if "tool" in given:
            output: Any = ResponseFunctionToolCall(
                arguments=given["arguments"],
                call_id="call_1",
                name=given["tool"],
                type="function_call",
            )
        else:
            part = ResponseOutputText(annotations=[], text=given["text"], type="output_text")
            output = ResponseOutputMessage(
                id="m", content=[part], role="assistant", status="completed", type="message"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@function_tool
def get_weather(city: str) -> str:
    """Return the weather of a city."""
    ran.append("tool")
    return "sunny"


openai_agents.instrument()
agent = Agent(
    name="Assistant", instructions="You are helpful.", model=Scripted(), tools=[get_weather]
)


def main(question: str) -> Any:
    agent.instructions = "You are curt." if "prompt" in changed else "You are helpful."
    return asyncio.run(Runner.run(agent, question)).final_output
