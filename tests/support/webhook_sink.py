"""A small real HTTP server that takes webhooks, and refuses them when told to."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebhookSink:
    """The server; a context manager."""

    def __init__(self):
        self.status = 200
        self.messages = []
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if sink.status == 200:
                    sink.messages.append(json.loads(body))
                self.send_response(sink.status)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def alerts(self, status=None):
        """The alerts told, oldest first."""
        told = [alert for message in self.messages for alert in message["alerts"]]
        return [alert for alert in told if status in (None, alert["status"])]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
