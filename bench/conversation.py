"""Record a run whose model call has many messages, with the SDK, as a program would."""

from pathlib import Path
from typing import Any

import tracereel
from tests.support.collector import http
from tests.support.waiting import wait_until

ANSWER = """## Options for day {n}

The **search** found *three* flights; the second is the cheapest, see https://example.com/{n}.

1. MEX-LIM 08:10 with `economy`
2. MEX-LIM 17:45

| flight | price |
|--------|------:|
| LA 2461 | 210 |
| AM 47 | 199.50 |

```python
def total(prices: list[float]) -> float:
    return sum(prices) * 1.16
```
"""


@tracereel.traced_llm("gpt-4o", provider="openai")
def call(messages: list[dict[str, Any]]) -> str:
    """Model that always answers the same."""
    return ANSWER.format(n=len(messages))


@tracereel.traced_pipeline("long_conversation")
def converse(messages: list[dict[str, Any]]) -> str:
    """Answer the last message of a long conversation."""
    return call(messages)


def messages_of(many: int) -> list[dict[str, Any]]:
    """Return turns of four messages: question, tool call, result, answer."""
    made: list[dict[str, Any]] = []
    for n in range(many // 4):
        asked = {"name": "flights", "arguments": f'{{"to": "LIM", "day": {n}}}'}
        found = [{"flight": "LA 2461", "price": 210, "terms": "Changes cost a fee. " * 20}] * 3
        made += [
            {"role": "user", "content": f"Question {n}: " + "which flight do I take? " * 12},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{n}", "type": "function", "function": asked}],
            },
            {"role": "tool", "tool_call_id": f"call_{n}", "content": str(found).replace("'", '"')},
            {"role": "assistant", "content": ANSWER.format(n=n) * 2},
        ]
    return made


def record(endpoint: str, spool: Path, *, messages: int) -> str:
    """Run it once; return the trace id when the collector has stored it."""
    tracereel.configure(endpoint=endpoint, spool_dir=str(spool), service="conversation")
    converse(messages_of(messages))
    tracereel.shutdown(timeout=30)

    def stored() -> str | None:
        answer = http("GET", f"{endpoint}/v1/traces?pipeline=long_conversation&from=1h").json()
        ended = [each for each in answer["traces"] if each["status"] == "success"]
        return str(ended[0]["trace_id"]) if ended else None

    return str(wait_until(stored, timeout=60, message="the conversation is not stored"))
