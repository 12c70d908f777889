"""Ask an SSE agent over HTTP, twice in one thread, and record both sides as one trace.

The agent's code: tracereel.demo.questions. The server is recorded by its decorator, the client by `wrap`.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import tracereel
from tracereel.demo.questions import CONVERSATIONS, QuestionAgent
from tracereel.integrations.sse import wrap
from tracereel.propagation import extract, inject

AGENT = QuestionAgent()


class Endpoint(BaseHTTPRequestHandler):
    """`POST` with `message` and, to go on, `threadId`; the answer is a stream of events."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with extract(self.headers):
            for frame in AGENT.ask(body["message"], thread_id=body.get("threadId")):
                self.wfile.write(frame.encode())

    def log_message(self, *args: object) -> None:
        """Nothing: the example prints what matters."""


def ask(url: str, message: str, thread_id: str | None) -> str:
    """Print the answer as it comes; gives the thread to go on with."""
    body = {"message": message, "threadId": thread_id}
    name = ""
    with tracereel.traced_agent("client", session_id=thread_id) as execution:
        request = Request(url, json.dumps(body).encode(), inject({}))  # noqa: S310 - our own server
        with urlopen(request, timeout=300) as response:  # noqa: S310
            frames = wrap(response, "law_expert_stream", thread_id=thread_id, round_limit=6)
            for line in frames:
                field, _, value = line.decode().strip().partition(": ")
                if field == "event":
                    name = value
                elif field == "data" and name == "token":
                    print(json.loads(value)["text"], end="", flush=True)
                elif field == "data" and name == "done":
                    thread_id = json.loads(value)["threadId"]
        print(f"\n  {execution.trace_id}")
    return thread_id or ""


def main() -> None:
    tracereel.configure(service="questions-example")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        thread_id = None
        for question in CONVERSATIONS[0]:
            print(f"> {question.text}")
            thread_id = ask(f"http://127.0.0.1:{server.server_port}", question.text, thread_id)
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
    tracereel.flush(5.0)


if __name__ == "__main__":
    main()
