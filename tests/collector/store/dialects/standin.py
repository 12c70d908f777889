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


ROUTES = {
    "/v1/chat/completions": chat,
    "/v1/responses": responses,
    "/v1/embeddings": embeddings,
    "/v1/messages": messages,
}


class StandIn(ThreadingHTTPServer):
    """Server on a free loopback port; `received` holds the OTLP bodies."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.received = []
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
        route = ROUTES.get(path)
        if route is None:
            return self.answer(200, b"{}", "application/json")
        request = json.loads(body)
        if request.get("model") == "broken":
            error = {
                "error": {"message": "slow down", "type": "rate_limit", "code": "rate_limited"}
            }
            return self.answer(429, json.dumps(error).encode(), "application/json")
        return self.answer(200, json.dumps(route(request)).encode(), "application/json")

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
