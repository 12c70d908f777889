"""Two runs that page tests compare: the same but for a model, a few words, and ids of every run.

`python -m tests.support.compared_program ENDPOINT SPOOL_DIR CITY MODEL`
"""

import sys
import uuid
from datetime import UTC, datetime
from typing import Any

import tracereel

RULES = "You are a travel desk. " + "Answer in one sentence, and never promise a seat. " * 20


def call(model: str, messages: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
    """Call a scripted model."""

    @tracereel.traced_llm(model, provider="openai")
    def asked(messages: list[dict[str, Any]]) -> dict[str, Any]:
        return answer

    return asked(messages)


@tracereel.traced_agent("compared_desk", version="1.0.0")
def desk(prompt: str, city: str, model: str) -> str:
    """Ask once for a tool, and once for the answer."""
    number, ticket = f"call_{uuid.uuid4().hex[:20]}", str(uuid.uuid4())
    function = {"name": "flights", "arguments": f'{{"ticket": "{ticket}"}}'}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": RULES},
        {"role": "user", "content": f"{prompt} Ticket {ticket}, {datetime.now(UTC).isoformat()}."},
    ]
    wants = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": number, "type": "function", "function": function}],
    }
    messages.append(call("gpt-4o", list(messages), wants))
    messages.append({"role": "tool", "tool_call_id": number, "content": '{"flights": 2}'})
    messages.append({"role": "user", "content": f"Take the first flight to {city} then, please."})
    said = call(model, messages, {"role": "assistant", "content": f"Booked to {city}."})
    return str(said["content"])


def main() -> None:
    """Run it once and deliver every event."""
    endpoint, spool, city, model = sys.argv[1:]
    tracereel.configure(endpoint=endpoint, spool_dir=spool, service="desk")
    desk("Which flights are there?", city, model)
    tracereel.shutdown(timeout=20)


if __name__ == "__main__":
    main()
