"""The store is the address that was configured, whatever answers there."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress


class _Server:
    def __init__(self, location=None):
        self.asked = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                server.asked.append(self.path)
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(307 if location else 200)
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


def test_a_redirect_is_not_followed():
    """What is sent to the store would go to whoever the answer names."""
    elsewhere = _Server()
    redirecting = _Server(f"http://127.0.0.1:{elsewhere.port}/")
    address = StoreAddress(
        host="127.0.0.1", port=redirecting.port, username="u", password="p", database="d"
    )
    store = ClickHouseStore(address, query_seconds=5, query_memory_bytes=10**9)
    try:
        with pytest.raises(StoreUnavailableError):
            store.command("SELECT 1")
        assert redirecting.asked
        assert elsewhere.asked == []
    finally:
        store.close()
        redirecting.close()
        elsewhere.close()
