"""Hand-made HTTP/2 frames that no client library would send."""

import contextlib
import socket
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
WINDOW_UPDATE = 8
END_STREAM, END_HEADERS = 1, 4
CANCEL = struct.pack(">I", 8)
_WINDOW = 65_535
_INITIAL_WINDOW = 4


def frame(kind, stream, payload=b"", *, flags=0):
    """Return one frame."""
    head = struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
    return head + struct.pack(">I", stream) + payload


def _text(value):
    size = len(value)
    if size < 127:
        return bytes([size]) + value
    out, size = bytearray(b"\x7f"), size - 127
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes([*out, size]) + value


def header(name, value):
    """Return a header as a literal without indexing."""
    return b"\x00" + _text(name) + _text(value)


def call_headers(path, *more):
    """Return the headers that begin a gRPC call."""
    pairs = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        *more,
    ]
    return b"".join(header(name, value) for name, value in pairs)


def message(data, *, is_packed=False):
    """Return a gRPC message."""
    return bytes([is_packed]) + struct.pack(">I", len(data)) + data


class Calls:
    """gRPC calls on one connection that respect the server's flow-control windows."""

    def __init__(self, port, path, *headers):
        self._head = call_headers(path, *headers)
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._changed = threading.Condition()
        self._initial, self._added = _WINDOW, {0: 0}
        self._sent = {0: 0}
        self._ended = set()
        self._is_open = True
        self._connection.sendall(PREFACE + frame(SETTINGS, 0))
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reading.join(20)
        self._connection.close()

    def begin(self):
        """Open a call; return its stream number."""
        stream = 2 * len(self._sent) - 1
        with self._changed:
            self._sent[stream] = self._added[stream] = 0
        self._write(frame(HEADERS, stream, self._head, flags=END_HEADERS))
        return stream

    def send(self, stream, data, *, piece=16_384, is_last=False):
        """Send data of a call, until the server stops accepting it."""
        data, position = memoryview(data), 0
        while position < len(data):
            with self._changed:
                if not self._changed.wait_for(lambda: self._room(stream) != 0, timeout=60):
                    return
                room = self._room(stream)
                if room is None:
                    return
                frames = []
                while room and position < len(data):
                    part = data[position : position + min(piece, room)]
                    position, room = position + len(part), room - len(part)
                    self._sent[0] += len(part)
                    self._sent[stream] += len(part)
                    flags = END_STREAM if is_last and position == len(data) else 0
                    frames.append(frame(DATA, stream, bytes(part), flags=flags))
            self._write(b"".join(frames))

    def cancel(self, stream):
        """Cancel a call."""
        self._write(frame(RST_STREAM, stream, CANCEL))

    def wait(self, stream, *, timeout=60):
        """Wait until the server has ended a call."""
        with self._changed:
            self._changed.wait_for(
                lambda: stream in self._ended or not self._is_open, timeout=timeout
            )

    def _room(self, stream):
        """Return how much may be sent now, or `None` if the call has ended."""
        if stream in self._ended or not self._is_open:
            return None
        of_all = _WINDOW + self._added[0] - self._sent[0]
        of_one = self._initial + self._added[stream] - self._sent[stream]
        return max(0, min(of_all, of_one))

    def _write(self, data):
        with contextlib.suppress(OSError):
            self._connection.sendall(data)

    def _read(self):
        with contextlib.suppress(OSError), self._connection.makefile("rb") as coming:
            while len(head := coming.read(9)) == 9:
                kind, flags = head[3], head[4]
                stream = int.from_bytes(head[5:]) & 0x7FFFFFFF
                self._take(kind, flags, stream, coming.read(int.from_bytes(head[:3])))
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

    def _take(self, kind, flags, stream, payload):
        answer = b""
        with self._changed:
            if kind == WINDOW_UPDATE:
                added = int.from_bytes(payload) & 0x7FFFFFFF
                self._added[stream] = self._added.get(stream, 0) + added
            elif kind == SETTINGS and not flags:
                for at in range(0, len(payload), 6):
                    name, value = struct.unpack_from(">HI", payload, at)
                    if name == _INITIAL_WINDOW:
                        self._initial = value
                answer = frame(SETTINGS, 0, flags=1)
            elif kind == PING and not flags:
                answer = frame(PING, 0, payload, flags=1)
            elif kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
                self._ended.add(stream)
            self._changed.notify_all()
        self._write(answer)
