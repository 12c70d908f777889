"""Small real HTTP server that accepts webhooks or refuses them."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebhookSink:
    """Server as a context manager."""

    def __init__(self):
        self.status = 200
        self.location = ""
        self.messages = []
        self.asked = []
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                sink.asked.append(("GET", self.path))
                self.send_response(200)
                self.end_headers()

            def do_POST(self):
                sink.asked.append(("POST", self.path))
                body = self.rfile.read(int(self.headers["content-length"]))
                if sink.status == 200:
                    sink.messages.append(json.loads(body))
                self.send_response(sink.status)
                if sink.location:
                    self.send_header("location", sink.location)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def alerts(self, status=None):
        """Return the received alerts, oldest first."""
        told = [alert for message in self.messages for alert in message["alerts"]]
        return [alert for alert in told if status in (None, alert["status"])]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
