"""Answers no collector gives: each is read to a bound at most, and then means that the events wait."""

import itertools
import socketserver
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from tracereel import config
from tracereel._sender import Sender, UnavailableError

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@contextmanager
def answering(pieces: Iterable[bytes]) -> Iterator[str]:
    """A server that says these bytes, whatever it is asked, for as long as anybody listens."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            try:
                for piece in pieces:
                    self.request.sendall(piece)
            except OSError:
                pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def slowly(*pieces: bytes) -> Iterator[bytes]:
    """The bytes one by one, each just before patience for the next one ends."""
    pause = threading.Event()
    for piece in itertools.chain(pieces, itertools.repeat(b" ")):
        yield piece
        pause.wait(0.05)


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"\x00\xff" * 100],
        [b"SSH-2.0-OpenSSH_9.2\r\n"],
        [b"HTTP/1.1 abc\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: minus one\r\n\r\n{}"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}"],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}"],
        [b"HTTP/1.1 100 Continue\r\n\r\n"],
        itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
        itertools.chain([b"HTTP/1.1 200 "], itertools.repeat(b"O" * 1000)),
        itertools.chain([OK], itertools.repeat(b"x-more: and more\r\n")),
        itertools.chain([OK + b"\r\n"], itertools.repeat(b'{"accepted": ' * 1000)),
        itertools.chain(
            [OK + b"transfer-encoding: chunked\r\n\r\n"], itertools.repeat(b"4\r\n1234\r\n" * 1000)
        ),
        slowly(OK + b"\r\n", b'{"accepted": 1'),
    ],
    ids=[
        *("nothing", "bytes", "another protocol", "no status", "no length", "cut short"),
        *("bad chunk", "continue", "continue for ever", "endless status", "endless headers"),
        *("endless body", "endless chunks", "trickle"),
    ],
)
def test_what_is_no_answer_of_a_collector_makes_events_wait(pieces: Iterable[bytes]) -> None:
    with answering(pieces) as url:
        sender = Sender(config.load(endpoint=url), timeout=0.3)
        try:
            with pytest.raises(UnavailableError):
                sender.post([b'{"n":1}\n'])
        finally:
            sender.close()
