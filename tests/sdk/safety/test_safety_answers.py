"""Invalid responses: each is read up to a limit, and the events wait."""

import itertools
from collections.abc import Callable, Iterable

import pytest

from tests.support.raw_answers import answering, slowly
from tracereel import config
from tracereel._export.sender import DeliveryUnavailableError, Sender
from tracereel.client import AccessDeniedError, Client, ClientError, CollectorUnavailableError

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


ANSWERS: dict[str, Callable[[], Iterable[bytes]]] = {
    "nothing": list,
    "bytes": lambda: [b"\x00\xff" * 100],
    "another protocol": lambda: [b"SSH-2.0-OpenSSH_9.2\r\n"],
    "no status": lambda: [b"HTTP/1.1 abc\r\n\r\n"],
    "no length": lambda: [b"HTTP/1.1 200 OK\r\ncontent-length: minus one\r\n\r\n{}"],
    "cut short": lambda: [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}"],
    "bad chunk": lambda: [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}"],
    "continue": lambda: [b"HTTP/1.1 100 Continue\r\n\r\n"],
    "continue for ever": lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "endless status": lambda: itertools.chain([b"HTTP/1.1 200 "], itertools.repeat(b"O" * 1000)),
    "endless headers": lambda: itertools.chain([OK], itertools.repeat(b"x-more: and more\r\n")),
    "endless body": lambda: itertools.chain(
        [OK + b"\r\n"], itertools.repeat(b'{"accepted": ' * 1000)
    ),
    "endless chunks": lambda: itertools.chain(
        [OK + b"transfer-encoding: chunked\r\n\r\n"], itertools.repeat(b"4\r\n1234\r\n" * 1000)
    ),
    "trickle": lambda: slowly(OK + b"\r\n", b'{"accepted": 1'),
    "trickle of headers": lambda: slowly(OK, b"x-more: "),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_events_wait_after_an_invalid_response(answer: str) -> None:
    with answering(ANSWERS[answer]()) as url:
        sender = Sender(config.load(endpoint=url), timeout=0.3)
        try:
            with pytest.raises(DeliveryUnavailableError):
                sender.post([b'{"n":1}\n'])
        finally:
            sender.close()


@pytest.mark.parametrize("answer", [each for each in ANSWERS if each != "no length"])
def test_invalid_response_is_a_client_error(answer: str) -> None:
    with answering(ANSWERS[answer]()) as url, pytest.raises(ClientError):
        Client(url, timeout=0.3).get("/healthz")


def test_a_stream_whose_headers_never_end_is_an_error() -> None:
    with (
        answering(ANSWERS["trickle of headers"]()) as url,
        pytest.raises(CollectorUnavailableError, match=r"within 0\.3 s"),
    ):
        Client(url, timeout=0.3).open_export("events", "ndjson")


def test_endless_403_response_raises_access_denied_error() -> None:
    refusal = b"HTTP/1.1 403 Forbidden\r\n\r\n"
    with answering(slowly(refusal)) as url, pytest.raises(AccessDeniedError):
        Client(url, timeout=0.3).open_export("events", "ndjson")
