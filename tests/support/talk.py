"""One conversation of twelve turns in the forms of all providers: tools, thinking, an image, markdown.

The history is the input of its last model call; `ANSWER` is that call's output.
"""

import json

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SYSTEM = "You are a careful travel guide.\n\n# Rules\n\n- Answer in **markdown**."
THOUGHT = "The user asks about July; I need the climate."
LAST_THOUGHT = "A short summary is enough."
ANSWER = "## Summary\n\n- July, 17 °C\n- [MALI](https://example.org/mali) is full"
TABLE = "About **17 °C**.\n\n| month | mean |\n|---|---|\n| July | 17 °C |"
CODE = "A single red pixel.\n\n```python\nprint('red')\n```"
CLIMATE = {"city": "Lima", "month": 7}
BOOKED = {"name": "MALI", "when": "July 14", "seats": [1, 2]}

TURNS = (
    ("system", SYSTEM),
    ("user", "I am planning a trip to Lima."),
    ("assistant", "Lovely! **When** do you travel?"),
    ("user", "In *July*. How is the weather then?"),
    ("thought", THOUGHT),
    ("calls", [("call_1", "climate", CLIMATE)]),
    ("result", ("call_1", "climate", {"mean": 17, "sky": "cloudy"})),
    ("assistant", TABLE),
    ("picture", "What is on this picture?"),
    ("assistant", CODE),
    ("user", "Find me two museums."),
    ("calls", [("call_2", "search", {"q": "museum"}), ("call_3", "search", {"q": "Larco"})]),
    ("result", ("call_2", "search", "MALI; MATE")),
    ("result", ("call_3", "search", ["Larco"])),
    ("assistant", "1. MALI\n2. Museo Larco"),
    ("user", "Book the first, “MALI”, for me 🙂"),
    ("calls", [("call_4", "book", BOOKED)]),
    ("result", ("call_4", "book", "no seats left")),
    ("assistant", "Sorry, there are **no seats** left."),
    ("user", "Thanks. Summarise, please."),
)
"""What was sent with the last call. A thought belongs to the calls after it."""

TOOLS = {
    "climate": {"city": {"type": "string"}, "month": {"type": "integer"}},
    "search": {"q": {"type": "string"}},
    "book": {"name": {"type": "string"}},
}


def schema(name):
    """Return the JSON Schema of a tool."""
    return {"type": "object", "properties": TOOLS[name]}


def as_text(value):
    """Return a tool's result as most providers take it."""
    return value if isinstance(value, str) else json.dumps(value)


def expected(*, thinking=False, image=True, parallel=True):
    """Return the messages as `(role, said…)`."""
    found, thought = [], None
    for kind, said in TURNS:
        if kind == "thought":
            thought = ("thinking", said)
        elif kind == "calls":
            calls = [("call", name, arguments) for _, name, arguments in said]
            found.append(("assistant", *[thought] * (thinking and bool(thought)), *calls))
            thought = None
        elif kind == "result":
            found.append(("tool", ("result", said[2])))
        elif kind == "picture":
            found.append(("user", ("text", said), *[("image", PNG)] * image))
        else:
            found.append((kind, ("text", said)))
    answer = [("thinking", LAST_THOUGHT)] * thinking + [("text", ANSWER)]
    return [*found, ("assistant", *answer)]


def shown(content, *, thinking=False, image=True):
    """Return the messages of a model call as `expected` does."""
    found = []
    for message in (*content.input, *content.output):
        said = []
        for part in message.parts:
            if part.type == "tool_call":
                said.append(("call", part.name, part.value))
            elif part.type == "tool_result":
                said.append(("result", part.value))
            elif part.type == "image" and image:
                said.append(("image", part.data))
            elif part.type == "text" or (part.type == "thinking" and thinking):
                said.append((part.type, part.text))
            elif part.type not in ("image", "thinking"):
                said.append((part.type, part.value))
        found.append((message.role, *said))
    return found


def chat():
    """Return the messages as OpenAI's chat completions take them."""
    found, thought = [], None
    for kind, said in TURNS:
        if kind == "thought":
            thought = said
        elif kind == "calls":
            calls = [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for call_id, name, arguments in said
            ]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
            found.append(message | ({"reasoning_content": thought} if thought else {}))
            thought = None
        elif kind == "result":
            found.append({"role": "tool", "tool_call_id": said[0], "content": as_text(said[2])})
        elif kind == "picture":
            image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
            found.append({"role": "user", "content": [{"type": "text", "text": said}, image]})
        else:
            found.append({"role": kind, "content": said})
    return found


def chat_tools():
    """Return the tools as OpenAI's chat completions take them."""
    return [
        {
            "type": "function",
            "function": {"name": name, "description": f"Tool {name}", "parameters": schema(name)},
        }
        for name in TOOLS
    ]


def responses():
    """Return the items as OpenAI's Responses API takes them; `instructions` is the system prompt."""
    found = []
    for kind, said in TURNS:
        if kind == "thought":
            summary = [{"type": "summary_text", "text": said}]
            found.append({"type": "reasoning", "id": "rs_1", "summary": summary})
        elif kind == "calls":
            found += [
                {
                    "type": "function_call",
                    "call_id": call_id,
                    "name": name,
                    "arguments": json.dumps(arguments),
                }
                for call_id, name, arguments in said
            ]
        elif kind == "result":
            output = as_text(said[2])
            found.append({"type": "function_call_output", "call_id": said[0], "output": output})
        elif kind == "picture":
            image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
            content = [{"type": "input_text", "text": said}, {**image, "detail": "auto"}]
            found.append({"role": "user", "content": content})
        elif kind != "system":
            found.append({"role": kind, "content": said})
    return found


def responses_tools():
    """Return the tools as OpenAI's Responses API takes them."""
    return [{"type": "function", "name": name, "parameters": schema(name)} for name in TOOLS]


def anthropic():
    """Return the messages as Anthropic takes them; `system` is an argument of its own."""
    found, thought, results = [], None, []
    for kind, said in TURNS:
        if results and kind != "result":
            found.append({"role": "user", "content": results})
            results = []
        if kind == "thought":
            thought = {"type": "thinking", "thinking": said, "signature": "c2ln"}
        elif kind == "calls":
            calls = [
                {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
                for call_id, name, arguments in said
            ]
            found.append({"role": "assistant", "content": [*[thought] * bool(thought), *calls]})
            thought = None
        elif kind == "result":
            content = [{"type": "text", "text": as_text(said[2])}]
            results.append({"type": "tool_result", "tool_use_id": said[0], "content": content})
        elif kind == "picture":
            source = {"type": "base64", "media_type": "image/png", "data": PNG}
            content = [{"type": "text", "text": said}, {"type": "image", "source": source}]
            found.append({"role": "user", "content": content})
        elif kind != "system":
            found.append({"role": kind, "content": said})
    return found


def anthropic_tools():
    """Return the tools as Anthropic takes them."""
    return [{"name": name, "input_schema": schema(name)} for name in TOOLS]


def google():
    """Return the contents as Google takes them; `systemInstruction` is an argument of its own."""
    found, thought, results = [], None, []
    for kind, said in TURNS:
        if results and kind != "result":
            found.append({"role": "user", "parts": results})
            results = []
        if kind == "thought":
            thought = {"text": said, "thought": True}
        elif kind == "calls":
            calls = [{"functionCall": {"name": name, "args": given}} for _, name, given in said]
            found.append({"role": "model", "parts": [*[thought] * bool(thought), *calls]})
            thought = None
        elif kind == "result":
            response = said[2] if isinstance(said[2], dict) else {"result": said[2]}
            results.append({"functionResponse": {"name": said[1], "response": response}})
        elif kind == "picture":
            image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
            found.append({"role": "user", "parts": [{"text": said}, image]})
        elif kind != "system":
            role = "model" if kind == "assistant" else kind
            found.append({"role": role, "parts": [{"text": said}]})
    return found


def google_tools():
    """Return the tools as Google takes them."""
    return [
        {"functionDeclarations": [{"name": name, "parameters": schema(name)} for name in TOOLS]}
    ]


def langchain():
    """Return the messages as LangChain's classes."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    found, thought = [], None
    for kind, said in TURNS:
        if kind == "thought":
            thought = said
        elif kind == "calls":
            calls = [{"name": name, "args": given, "id": each} for each, name, given in said]
            more = {"reasoning_content": thought} if thought else {}
            found.append(AIMessage("", tool_calls=calls, additional_kwargs=more))
            thought = None
        elif kind == "result":
            found.append(ToolMessage(as_text(said[2]), tool_call_id=said[0], name=said[1]))
        elif kind == "picture":
            image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
            found.append(HumanMessage([{"type": "text", "text": said}, image]))
        else:
            made = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}[kind]
            found.append(made(said))
    return found


def gen_ai():
    """Return the messages in OpenTelemetry's schema."""
    found, thought = [], None
    for kind, said in TURNS:
        if kind == "thought":
            thought = {"type": "reasoning", "content": said}
        elif kind == "calls":
            calls = [
                {"type": "tool_call", "id": each, "name": name, "arguments": given}
                for each, name, given in said
            ]
            found.append({"role": "assistant", "parts": [*[thought] * bool(thought), *calls]})
            thought = None
        elif kind == "result":
            part = {"type": "tool_call_response", "id": said[0], "response": said[2]}
            found.append({"role": "tool", "parts": [part]})
        else:
            text = {"type": "text", "content": said}
            image = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": PNG}
            role = "user" if kind == "picture" else kind
            found.append({"role": role, "parts": [text, *[image] * (kind == "picture")]})
    return found


def vercel():
    """Return the messages of the Vercel AI SDK; `system` is an argument of its own."""
    found, thought = [], None
    for kind, said in TURNS:
        if kind == "thought":
            thought = {"type": "reasoning", "text": said}
        elif kind == "calls":
            calls = [
                {"type": "tool-call", "toolCallId": each, "toolName": name, "input": given}
                for each, name, given in said
            ]
            found.append({"role": "assistant", "content": [*[thought] * bool(thought), *calls]})
            thought = None
        elif kind == "result":
            form = "text" if isinstance(said[2], str) else "json"
            output = {"type": form, "value": said[2]}
            part = {"type": "tool-result", "toolCallId": said[0], "toolName": said[1]}
            found.append({"role": "tool", "content": [{**part, "output": output}]})
        elif kind == "picture":
            image = {"type": "image", "image": PNG, "mediaType": "image/png"}
            found.append({"role": "user", "content": [{"type": "text", "text": said}, image]})
        elif kind != "system":
            found.append({"role": kind, "content": said})
    return found


def answer_of_chat():
    """Return the last answer as OpenAI's chat completions give it."""
    message = {"role": "assistant", "content": ANSWER, "reasoning_content": LAST_THOUGHT}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 820,
            "completion_tokens": 40,
            "total_tokens": 860,
            "prompt_tokens_details": {"cached_tokens": 512},
            "completion_tokens_details": {"reasoning_tokens": 12},
        },
    }


def answer_of_responses():
    """Return the last answer as OpenAI's Responses API gives it."""
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    summary = [{"type": "summary_text", "text": LAST_THOUGHT}]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "completed",
        "model": "gpt-4o-mini-2024-07-18",
        "output": [
            {"type": "reasoning", "id": "rs_2", "summary": summary},
            {**message, "content": [text]},
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": 820,
            "output_tokens": 40,
            "total_tokens": 860,
            "input_tokens_details": {"cached_tokens": 512},
            "output_tokens_details": {"reasoning_tokens": 12},
        },
    }


def answer_of_anthropic():
    """Return the last answer as Anthropic gives it."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [
            {"type": "thinking", "thinking": LAST_THOUGHT, "signature": "c2ln"},
            {"type": "text", "text": ANSWER},
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 308,
            "output_tokens": 40,
            "cache_read_input_tokens": 512,
            "cache_creation_input_tokens": 0,
        },
    }


def answer_of_google():
    """Return the last answer as Google gives it."""
    parts = [{"text": LAST_THOUGHT, "thought": True}, {"text": ANSWER}]
    return {
        "candidates": [
            {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": 820,
            "candidatesTokenCount": 28,
            "thoughtsTokenCount": 12,
            "totalTokenCount": 860,
            "cachedContentTokenCount": 512,
        },
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r-1",
    }
