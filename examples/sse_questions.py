"""Call an SSE agent over HTTP and record both sides as one trace.

The agent is in `tracereel.demo.questions`. The decorator records the server, `wrap` records the
client. The endpoint demands the key `QUESTIONS_API_KEY` as `x-api-key`; by default it is random.
Replay the client's run without the server: `tracereel replay TRACE_ID --run` in this folder.
"""

import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import tracereel
from tracereel.demo import questions
from tracereel.integrations.sse import wrap
from tracereel.propagation import extract, inject

KEY = os.environ.get("QUESTIONS_API_KEY") or secrets.token_urlsafe(16)


class Endpoint(BaseHTTPRequestHandler):
    """`POST` endpoint with `message` and optional `threadId`; responds with an event stream.

    All requests of the process have the same agent (`questions.MANAGER`).
    """

    def do_POST(self) -> None:
        key = self.headers.get("x-api-key", "")
        if not hmac.compare_digest(key.encode(), KEY.encode()):
            self.refuse()
            return
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with extract(self.headers):
            for frame in questions.ask(body["message"], thread_id=body.get("threadId")):
                self.wfile.write(frame.encode())

    def refuse(self) -> None:
        """Answer a request without the key."""
        body = json.dumps({"message": "x-api-key is missing or wrong"}).encode()
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Suppress the access log."""


@tracereel.traced_tool("law_service", effect="read")
def post(url: str, body: dict[str, str | None]) -> Iterator[bytes]:
    """Yield the lines of the response; in a replay they come from the tape."""
    headers = inject({"x-api-key": KEY})
    request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - our own server
    with urlopen(request, timeout=300) as response:  # noqa: S310
        yield from response


@tracereel.traced_agent("client")
def ask(url: str, message: str, session_id: str | None) -> str:
    """Print the response as it arrives; return the thread id."""
    name = thread_id = ""
    lines = post(url, {"message": message, "threadId": session_id})
    for line in wrap(lines, "law_expert_stream", thread_id=session_id, round_limit=6):
        field, _, value = line.decode().strip().partition(": ")
        if field == "event":
            name = value
        elif field == "data" and name == "token":
            print(json.loads(value)["text"], end="", flush=True)
        elif field == "data" and name == "done":
            thread_id = json.loads(value)["threadId"]
    print(f"\n  {tracereel.current_execution().trace_id}")
    return thread_id


def main() -> None:
    tracereel.configure(service="questions-example", record="all")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        thread_id = None
        for question in questions.CONVERSATIONS[0]:
            print(f"> {question.text}")
            thread_id = ask(f"http://127.0.0.1:{server.server_port}", question.text, thread_id)
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
    tracereel.flush(5.0)


if __name__ == "__main__":
    main()
