"""Small real HTTP server that redirects its clients."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class RedirectingServer:
    """Server that counts requests, and redirects if a location is given."""

    def __init__(self, location=None, *, status=307):
        self.asked = []
        self.status = status
        server = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                server.asked.append(self.path)
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(status if location else 200)
                if location:
                    self.send_header("location", location)
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_POST = answer  # noqa: N815 - the names that the server looks for

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()
