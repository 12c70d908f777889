"""Stand-in for the providers' servers that can stream, refuse, disconnect and send garbage."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import ThreadingHTTPServer
from random import Random

from tests.clients import standin as whole
from tests.sdk.providers import samples, wire

ANTHROPIC_HEADERS = {
    "anthropic-ratelimit-tokens-remaining": "4321",
    "request-id": "req_anthropic",
}
OPENAI_HEADERS = {"x-ratelimit-remaining-tokens": "1234", "x-request-id": "req_openai"}


@dataclass(frozen=True)
class Reply:
    """Response to the next request, instead of the default one."""

    status: int = 200
    body: bytes | None = None
    headers: dict = field(default_factory=dict)
    cut_after: int | None = None
    """For streams: break the connection after so many frames."""
    end_after: int | None = None
    """For streams: end it properly after so many frames."""
    frames: list | None = None
    """For streams: frames that replace the default ones."""
    drop: bool = False
    """Close the connection without a response."""
    holds: bool = False
    """Do not respond before the test is over."""
    answer: dict | None = None
    """Response that replaces the default one, streamed if requested."""
    pause: Callable = lambda: None
    """Called before the response, and before each frame of a stream."""


def error(status, message, kind, **headers):
    """Return an error in the providers' format."""
    body = {"type": "error", "error": {"type": kind, "message": message, "code": kind}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, body=json.dumps(body).encode(), headers=named)


RATE_LIMITED = error(429, "slow down", "rate_limit_error", retry_after="0.01")
BROKEN = error(500, "out of order", "api_error", retry_after_ms="10")


class StandIn(ThreadingHTTPServer):
    """Server on a free loopback port; `requests` holds the received bodies in order."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []
        self.paths = []
        self._script = []
        self.over = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def will(self, *replies):
        """Use these replies for the next requests, then the default again."""
        with self._lock:
            self._script = list(replies)

    def reset(self):
        self.over.set()
        self.over = threading.Event()
        with self._lock:
            self._script, self.requests[:], self.paths[:] = [], [], []

    def handle_error(self, request, client_address):
        """Ignore clients that disconnect during a response; some tests do."""

    def next_reply(self, path, request):
        with self._lock:
            self.paths.append(path)
            self.requests.append(request)
            del self.requests[:-1000], self.paths[:-1000]
            return self._script.pop(0) if self._script else Reply()


class Handler(whole.Handler):
    disable_nagle_algorithm = True

    def do_POST(self):  # noqa: N802 - the name that http.server calls
        body = self.body()
        path = self.path.partition("?")[0]
        request = json.loads(body) if body else {}
        reply = self.server.next_reply(self.path, request)
        if reply.holds:
            self.server.over.wait(20)
        if reply.drop:
            self.close_connection = True
            return
        reply.pause()
        if reply.body is not None:
            kind = {"Content-Type": "application/json"} | reply.headers
            self.send(reply.status, reply.body, kind)
            return
        if path.endswith(("/messages",)):
            self.anthropic(request, reply)
        elif path.endswith("/chat/completions"):
            answer = reply.answer or whole.chat(request)
            self.openai(request, reply, answer, wire.openai_chunks, done=True)
        elif path.endswith("/responses"):
            answer = reply.answer or whole.responses(request)
            self.openai(request, reply, answer, wire.responses_events, named=True)
        elif path.endswith("/embeddings"):
            answer = json.dumps(whole.embeddings(request)).encode()
            self.send(200, answer, OPENAI_HEADERS | {"Content-Type": "application/json"})
        elif ":" in path:
            self.google(path, request, reply)
        else:
            self.send(200, b"{}", {"Content-Type": "application/json"})

    def anthropic(self, request, reply):
        answer = reply.answer or whole.messages(request)
        if request.get("stream"):
            events = wire.anthropic_events(answer, Random(7))
            self.stream(reply, events, ANTHROPIC_HEADERS, named=True)
        else:
            kind = {"Content-Type": "application/json"}
            self.send(200, json.dumps(answer).encode(), ANTHROPIC_HEADERS | kind)

    def openai(self, request, reply, answer, chunks, **style):
        if request.get("stream"):
            self.stream(reply, chunks(answer, Random(7)), OPENAI_HEADERS, **style)
        else:
            kind = {"Content-Type": "application/json"}
            self.send(200, json.dumps(answer).encode(), OPENAI_HEADERS | kind)

    def google(self, path, request, reply):
        answer = reply.answer or samples.GOOGLE
        kind = {"Content-Type": "application/json"}
        if path.endswith(":streamGenerateContent"):
            self.stream(reply, wire.google_chunks(answer, Random(7)), {})
        elif path.endswith((":embedContent", ":batchEmbedContents")):
            values = {"embeddings": [{"values": [0.1, 0.2]}], "embedding": {"values": [0.1, 0.2]}}
            self.send(200, json.dumps(values).encode(), kind)
        else:
            self.send(200, json.dumps(answer).encode(), kind)

    def stream(self, reply, events, headers, *, named=False, done=False):
        frames = [wire.sse([event], named=named) for event in events]
        if done:
            frames.append(b"data: [DONE]\n\n")
        if reply.frames is not None:
            frames = reply.frames
        self.send_response(200)
        for name, value in {**headers, **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, frame in enumerate(frames):
            if number == reply.cut_after:
                self.close_connection = True
                self.connection.close()
                return
            if number == reply.end_after:
                break
            reply.pause()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        self.wfile.write(b"0\r\n\r\n")

    def send(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def long_frames(request, path, chunks):
    """Return a stream of many small text chunks, for measurements."""
    if path.endswith("/messages"):
        first = {"type": "message_start", "message": {**whole.messages(request), "content": []}}
        block = {"type": "text", "text": ""}
        events = [first, {"type": "content_block_start", "index": 0, "content_block": block}]
        delta = {"type": "text_delta", "text": "word "}
        events += [{"type": "content_block_delta", "index": 0, "delta": delta}] * chunks
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        events += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": chunks}},
            {"type": "message_stop"},
        ]
        return [wire.sse([event], named=True) for event in events]
    if path.endswith("/chat/completions"):
        about = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}

        def chunk(delta, finish=None):
            return {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        events = [chunk({"content": "word "})] * chunks + [chunk({}, "stop")]
        return [*(wire.sse([event]) for event in events), b"data: [DONE]\n\n"]
    if path.endswith("/responses"):
        answer = whole.responses(request)
        events = wire.responses_events(answer, Random(7))
        at = next(n for n, event in enumerate(events) if event["type"].endswith("text.delta"))
        pieces = [{**events[at], "delta": "word ", "sequence_number": 1, "logprobs": []}] * chunks
        return [wire.sse([event], named=True) for event in events[:at] + pieces + events[-1:]]
    part = {"content": {"role": "model", "parts": [{"text": "word "}]}, "index": 0}
    pieces = [{"candidates": [part], "modelVersion": "m", "responseId": "r"}] * chunks
    last = {"candidates": [{**part, "finishReason": "STOP"}], "usageMetadata": {}}
    return [wire.sse([event]) for event in [*pieces, last]]


class LongHandler(Handler):
    """Handler that streams many chunks, several per packet; whole responses are plain text."""

    chunks = 2000
    rich = False
    """Whether whole responses contain reasoning, tool calls and sources, as by default."""
    wait = 0.0
    """Seconds before each response, as a model would take."""

    def do_POST(self):  # noqa: N802
        if self.wait:
            time.sleep(self.wait)
        super().do_POST()

    def anthropic(self, request, reply):
        if not self.rich:
            said = [{"type": "text", "text": "It is sunny in Lima."}]
            answer = {**whole.messages(request), "content": said, "stop_reason": "end_turn"}
            reply = replace(reply, answer=answer)
        super().anthropic(request, reply)

    def google(self, path, request, reply):
        if not self.rich:
            said = {"role": "model", "parts": [{"text": "It is sunny in Lima."}]}
            answer = {"candidates": [{"content": said, "finishReason": "STOP", "index": 0}]}
            reply = replace(reply, answer={**samples.GOOGLE, **answer})
        super().google(path, request, reply)

    def stream(self, reply, events, headers, *, named=False, done=False):
        request, path = self.server.requests[-1], self.path.partition("?")[0]
        frames = long_frames(request, path, self.chunks)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        body = b"".join(b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames)
        self.wfile.write(body + b"0\r\n\r\n")


def main():
    """Run the stand-in as a process: print its address and serve until stdin ends."""
    import argparse
    import sys

    parser = argparse.ArgumentParser()
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--rich", action="store_true")
    parser.add_argument("--wait", type=float, default=0.0, help="milliseconds before an answer")
    args = parser.parse_args()
    LongHandler.chunks, LongHandler.rich = args.chunks, args.rich
    LongHandler.wait = args.wait / 1000
    server = StandIn()
    server.RequestHandlerClass = LongHandler
    print(server.url, flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
