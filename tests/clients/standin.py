"""Stand-in for the providers' servers: responds in their wire format and keeps received OTLP."""

import gzip
import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OPENAI_MODEL = "gpt-4o-mini-2024-07-18"
NUMBERS = itertools.count(1)
ANTHROPIC_MODEL = "claude-sonnet-4-5-20250929"

OPENAI_USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 30,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 8, "audio_tokens": 0},
}
ANTHROPIC_USAGE = {
    "input_tokens": 20,
    "output_tokens": 15,
    "cache_read_input_tokens": 300,
    "cache_creation_input_tokens": 50,
}
CALL = {"id": "call_1", "type": "function"} | {
    "function": {"name": "get_weather", "arguments": '{"city":"Lima"}'}
}


def chat(request):
    """`POST /v1/chat/completions`: a tool call when tools are offered, else a sentence."""
    asked = bool(request.get("tools")) and request["messages"][-1]["role"] == "user"
    message = {"role": "assistant", "content": None if asked else "It is sunny in Lima."}
    if asked:
        message["tool_calls"] = [CALL]
    return {
        "id": f"chatcmpl-{next(NUMBERS)}",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": OPENAI_MODEL,
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if asked else "stop"}
        ],
        "usage": OPENAI_USAGE,
    }


def responses(request):
    """`POST /v1/responses`, used by newer OpenAI clients."""
    text = {"type": "output_text", "text": "It is sunny in Lima.", "annotations": []}
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "get_weather",
        "arguments": '{"city":"Lima"}',
        "status": "completed",
    }
    answered = any(
        isinstance(item, dict) and item.get("type") == "function_call_output"
        for item in (request["input"] if isinstance(request["input"], list) else [])
    )
    asked = bool(request.get("tools")) and not answered
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    return {
        "id": f"resp_{next(NUMBERS)}",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "completed",
        "model": OPENAI_MODEL,
        "output": [call] if asked else [{**message, "content": [text]}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": 120,
            "output_tokens": 30,
            "total_tokens": 150,
            "input_tokens_details": {"cached_tokens": 40},
            "output_tokens_details": {"reasoning_tokens": 8},
        },
    }


def embeddings(request):
    """`POST /v1/embeddings`."""
    return {
        "object": "list",
        "model": "text-embedding-3-small",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2, 0.3]}],
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    }


def messages(request):
    """`POST /v1/messages`: Anthropic, with a partly cached prompt."""
    return {
        "id": f"msg_{next(NUMBERS)}",
        "type": "message",
        "role": "assistant",
        "model": ANTHROPIC_MODEL,
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Lima"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": ANTHROPIC_USAGE,
    }


def streamed_chat(request):
    """Chunks of `POST /v1/chat/completions` with `stream`."""
    head = {"id": f"chatcmpl-{next(NUMBERS)}", "object": "chat.completion.chunk"}
    head |= {"created": 1_760_000_000, "model": OPENAI_MODEL}
    whole = chat(request)["choices"][0]
    deltas = [{"role": "assistant", "content": ""}]
    if calls := whole["message"].get("tool_calls"):
        deltas += [{"tool_calls": [{"index": 0, **call}]} for call in calls]
    else:
        deltas += [{"content": word} for word in ("It is ", "sunny ", "in Lima.")]
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    end = {"index": 0, "delta": {}, "finish_reason": whole["finish_reason"]}
    yield {**head, "choices": [end]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": OPENAI_USAGE}


def streamed_responses(request):
    """Events of `POST /v1/responses` with `stream`."""
    whole = responses(request)
    numbers = itertools.count()
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun, "sequence_number": next(numbers)}
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index}
        opened = {**item, **({"content": []} if "content" in item else {})}
        yield {"type": "response.output_item.added", **place, "item": opened} | {
            "sequence_number": next(numbers)
        }
        for part in item.get("content", []):
            inside = {**place, "item_id": item["id"], "content_index": 0}
            yield {"type": "response.output_text.delta", **inside, "delta": part["text"]} | {
                "sequence_number": next(numbers),
                "logprobs": [],
            }
        yield {"type": "response.output_item.done", **place, "item": item} | {
            "sequence_number": next(numbers)
        }
    yield {"type": "response.completed", "response": whole, "sequence_number": next(numbers)}


def streamed_messages(request):
    """Events of `POST /v1/messages` with `stream`."""
    begun = messages(request) | {"content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for word in ("It is ", "sunny ", "in Lima."):
        delta = {"type": "text_delta", "text": word}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 15}}
    yield {"type": "message_stop"}


STREAMED = {
    "/v1/chat/completions": streamed_chat,
    "/v1/responses": streamed_responses,
    "/v1/messages": streamed_messages,
}
ROUTES = {
    "/v1/chat/completions": chat,
    "/v1/responses": responses,
    "/v1/embeddings": embeddings,
    "/v1/messages": messages,
}


class StandIn(ThreadingHTTPServer):
    """Server on a free loopback port; `received` and `logs` hold the OTLP bodies."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.received = []
        self.logs = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.body()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        path = self.path.partition("?")[0]
        if path.endswith("/v1/traces"):
            self.server.received.append(body)
            return self.answer(200, b"", "application/x-protobuf")
        if path.endswith("/v1/logs"):
            self.server.logs.append(body)
            return self.answer(200, b"", "application/x-protobuf")
        if path.endswith("/v1/metrics"):
            return self.answer(200, b"", "application/x-protobuf")
        path = path if path.startswith("/v1/") else f"/v1{path}"
        route = ROUTES.get(path)
        if route is None:
            return self.answer(200, b"{}", "application/json")
        request = json.loads(body)
        if request.get("model") == "broken":
            error = {
                "error": {"message": "slow down", "type": "rate_limit", "code": "rate_limited"}
            }
            return self.answer(429, json.dumps(error).encode(), "application/json")
        if request.get("stream") and path in STREAMED:
            return self.stream(STREAMED[path](request))
        return self.answer(200, json.dumps(route(request)).encode(), "application/json")

    def stream(self, events):
        lines = []
        for event in events:
            named = f"event: {event['type']}\n" if "type" in event else ""
            lines.append(f"{named}data: {json.dumps(event)}\n\n")
        if not named:
            lines.append("data: [DONE]\n\n")
        self.answer(200, "".join(lines).encode(), "text/event-stream")

    def do_GET(self):
        self.answer(200, b'{"data": []}', "application/json")

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def answer(self, status, body, content_type):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
