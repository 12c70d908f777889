"""Conversation of twelve turns that the page tests read: tools, thinking, an image, Markdown.

`python -m tests.support.conversation_program ENDPOINT SPOOL_DIR`
"""

import base64
import struct
import sys
import zlib
from typing import Any

import tracereel

TURNS = 12
SYSTEM = "You are a travel desk.\n\n- answer briefly\n- never promise a seat"
MARKDOWN = """## Flights on day {n}

The **second** is *cheapest*; see [the offer](https://example.com/{n}) or [this](javascript:alert(1)).

1. LA 2461 with `economy`
2. AM 47

| flight | price |
|--------|------:|
| LA 2461 | 210 |

> Fares change daily.

```python
print("day {n}")
```"""


def picture() -> str:
    """Return a PNG of 24 by 16 pixels in base64."""
    rows = b"".join(b"\0" + bytes([40, 90, 200]) * 24 for _ in range(16))

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    size = chunk(b"IHDR", struct.pack(">IIBBBBB", 24, 16, 8, 2, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(rows))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + size + data + chunk(b"IEND", b"")).decode()


@tracereel.traced_llm("claude-sonnet-4", provider="anthropic")
def call(messages: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
    """Model with a scripted answer."""
    tracereel.current_execution().set(
        llm_prompt_tokens=len(messages) * 100,
        llm_completion_tokens=64,
        llm_cached_tokens=512,
        llm_reasoning_tokens=32,
        time_to_first_token_ms=312,
        finish_reason="end_turn",
    )
    return answer


@tracereel.traced_tool("flights")
def flights(to: str, day: int) -> dict[str, Any]:
    """List flights."""
    return {"to": to, "day": day, "flights": [{"name": "LA 2461", "price": 210}]}


@tracereel.traced_agent("desk", version="1.0.0")
def converse(prompt: str) -> str:
    """Answer twelve questions; every call has all earlier messages."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    for n in range(TURNS):
        messages.append({"role": "user", "content": _question(n, prompt)})
        used = {"type": "tool_use", "id": f"toolu_{n}", "name": "flights"}
        wants = _said(
            {"type": "thinking", "thinking": f"Day {n}: I need the flights."},
            {**used, "input": {"to": "LIM", "day": n}},
        )
        messages.append(call(list(messages), wants))
        found = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{n}",
            "content": str(flights("LIM", n)),
        }
        messages.append({"role": "user", "content": [found]})
        messages.append(call(list(messages), _said({"type": "text", "text": MARKDOWN.format(n=n)})))
    return MARKDOWN.format(n=TURNS - 1)


def _said(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts)}


def _question(n: int, prompt: str) -> list[dict[str, Any]]:
    text = {"type": "text", "text": f"Question {n}: {prompt}"}
    if n != TURNS - 1:
        return [text]
    source = {"type": "base64", "media_type": "image/png", "data": picture()}
    return [text, {"type": "image", "source": source}]


def main() -> None:
    """Run it once and deliver every event."""
    endpoint, spool = sys.argv[1:]
    tracereel.configure(endpoint=endpoint, spool_dir=spool, service="desk")
    converse("which flight is cheapest?")
    tracereel.shutdown(timeout=20)


if __name__ == "__main__":
    main()
