"""Noisy tenant on a real collector: takes every slot it can get, repeatedly."""

import contextlib
import select
import socket
import threading
from urllib.parse import urlsplit

import grpc

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
RETRY_SECONDS = 0.2


class Held:
    """Requests of one kind that are kept open: one thread opens new ones, one keeps them alive."""

    def __init__(self, want, open_one, keep_up):
        self.want = want
        self.open = []
        self.refused = 0
        self._open_one = open_one
        self._keep_up = keep_up
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._fill, self._keep)
        ]
        for thread in self._threads:
            thread.start()

    def _fill(self):
        while not self._stop.wait(RETRY_SECONDS if self.refused or self.is_full else 0):
            if not self.is_full:
                opened = self._open_one()
                if opened is None:
                    self.refused += 1
                else:
                    self.open.append(opened)

    def _keep(self):
        while not self._stop.wait(RETRY_SECONDS):
            for each in list(self.open):
                if not self._keep_up(each):
                    self.open.remove(each)
                    self.refused += 1
                    each.close()

    @property
    def is_full(self):
        return len(self.open) >= self.want

    def close(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        for each in self.open:
            each.close()


def _read_a_little(connection):
    """Read as slowly as allowed; return whether the response continues."""
    try:
        return not _is_readable(connection) or bool(connection.recv(4096))
    except OSError:
        return False


def _send_a_little(connection):
    """Send one more byte; return whether there is no response yet."""
    try:
        connection.sendall(b" ")
        return not _is_readable(connection)
    except OSError:
        return False


def _is_readable(connection):
    return bool(select.select([connection], [], [], 0)[0])


class Noise:
    """Resources held by one tenant; a context manager."""

    def __init__(self, site, tenant):
        self._address = urlsplit(site.url)
        self._key = site.keys[tenant]
        self._grpc_port = site.collector.grpc_port
        self._ask = site.ask
        self._tenant = tenant
        self._stop = threading.Event()
        self._channels = []
        self.held = {}
        self._loops = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        for each in self.held.values():
            each.close()
        for channel in self._channels:
            channel.close()
        for loop in self._loops:
            loop.join(60)

    def streams(self, name, path, want):
        """Open responses that are read as slowly as allowed."""

        def open_one():
            connection = self._connect()
            connection.sendall(self._head("GET", path))
            try:
                if connection.recv(12) == b"HTTP/1.1 200":
                    return connection
            except OSError:
                pass
            connection.close()
            return None

        self.held[name] = Held(want, open_one, _read_a_little)

    def bodies(self, name, want, *, size):
        """Open bodies of which `size` bytes are sent, then a byte now and then."""

        def open_one():
            connection = self._connect()
            head = self._head("POST", "/v1/events", "Content-Length: 3000000")
            try:
                connection.sendall(head + b" " * size)
            except OSError:
                connection.close()
                return None
            return connection

        self.held[name] = Held(want, open_one, _send_a_little)

    def calls(self, name, want):
        """Open gRPC calls without a message."""
        channel = grpc.insecure_channel(f"127.0.0.1:{self._grpc_port}")
        self._channels.append(channel)
        method = channel.stream_unary(TRACES)

        def silent():
            self._stop.wait()
            yield from ()

        class Call:
            def __init__(self, key):
                self.future = method.future(silent(), metadata=(("x-api-key", key),))

            def close(self):
                self.future.cancel()

        self.held[name] = Held(want, lambda: Call(self._key), lambda call: not call.future.done())

    def repeat(self, method, path, body=None, *, threads=1):
        """Send requests one after the other, ignoring the responses."""

        def run():
            while not self._stop.is_set():
                with contextlib.suppress(OSError):
                    self._ask(method, path, body, tenant=self._tenant)

        for _ in range(threads):
            self._loops.append(threading.Thread(target=run, daemon=True))
            self._loops[-1].start()

    def _connect(self):
        connection = socket.socket()
        # A small window, so that unread data stays with the collector.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect((self._address.hostname, self._address.port))
        return connection

    def _head(self, method, path, *lines):
        first = f"{method} {path} HTTP/1.1"
        return "\r\n".join(
            [first, "Host: localhost", f"x-api-key: {self._key}", *lines, "", ""]
        ).encode()
