"""Server-Sent Events client that reads a real connection in a thread."""

import contextlib
import http.client
import json
import socket
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Message:
    """One dispatched event."""

    name: str
    id: str
    data: dict


class EventStream:
    """Stream and its received messages; a context manager."""

    def __init__(self, url, *, headers=None, timeout=60):
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self.connection.request("GET", path, headers=headers or {})
        self.socket = self.connection.sock
        self.response = self.connection.getresponse()
        self.messages = []
        self.comments = []
        self.last_id = ""
        self.ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self):
        assert self.response.status == 200, self.response.read()
        self._thread.start()
        # The first bytes of the stream: nothing is missed from here on.
        wait_until(lambda: self.last_id, message="the stream did not open")
        return self

    def close(self):
        self.socket.close()
        self.response.close()
        self.connection.close()

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes up the reading thread
        self._thread.join(10)
        self.close()

    def _read(self):
        name, data = "message", []
        try:
            for raw in self.response:
                line = raw.decode().rstrip("\n")
                field, _, value = line.partition(": ")
                if not line:
                    if data:
                        self.messages.append(
                            Message(name, self.last_id, json.loads("\n".join(data)))
                        )
                    name, data = "message", []
                elif field == "":
                    self.comments.append(value)
                elif field == "id":
                    self.last_id = value
                elif field == "event":
                    name = value
                elif field == "data":
                    data.append(value)
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass  # closed from this side
        self.ended = True

    def wait_for(self, count, timeout=20.0):
        wait_until(
            lambda: len(self.messages) >= count,
            timeout,
            message=f"{len(self.messages)} of {count} messages came",
        )
        return self.messages[:count]
