"""HTTP client: connection reuse, limits, and no redirects."""

import pytest

from tests.support.raw_answers import ScriptedServer
from tracereel._export.http_client import (
    HTTP_ERRORS,
    BodyTooLargeError,
    HttpConnection,
    HttpResponse,
)


def whole(body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n") -> bytes:
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def test_a_connection_is_kept_and_opened_again_when_the_server_has_closed_it() -> None:
    with ScriptedServer([whole(b"1"), whole(b"2")], [whole(b"3")]) as server:
        connection = HttpConnection(server.url, headers={"x-api-key": "k"}, timeout=10)
        bodies = [connection.request("GET", "/").body for _ in range(3)]
        connection.close()

    assert bodies == [b"1", b"2", b"3"]
    assert all("x-api-key: k" in request for request in server.requests)


def test_a_new_connection_that_the_server_closes_is_an_error() -> None:
    with ScriptedServer([], [whole(b"1")]) as server:
        connection = HttpConnection(server.url, timeout=10)
        with pytest.raises(HTTP_ERRORS):
            connection.request("GET", "/")

        assert connection.request("GET", "/").body == b"1"
        connection.close()


def test_a_redirect_is_an_answer_like_any_other() -> None:
    there = b"HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:1/\r\n"
    with ScriptedServer([whole(b"", there)]) as server:
        connection = HttpConnection(f"{server.url}/prefix/", timeout=10)
        response = connection.request("POST", "/v1/events")
        connection.close()

    assert (response.status, len(server.requests)) == (307, 1)
    assert server.requests[0].startswith("POST /prefix/v1/events HTTP/1.1\r\n")


@pytest.mark.parametrize("headers", [b"content-length: 101\r\n\r\n", b"connection: close\r\n\r\n"])
def test_an_answer_above_the_bound_is_an_error(headers: bytes) -> None:
    with ScriptedServer([b"HTTP/1.1 200 OK\r\n" + headers + b"x" * 101]) as server:
        connection = HttpConnection(server.url, timeout=10, max_body_bytes=100)
        with pytest.raises(BodyTooLargeError, match="more than 100 bytes"):
            connection.request("GET", "/")


def test_a_stream_that_is_cut_short_is_an_error() -> None:
    with ScriptedServer([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"]) as server:
        stream = HttpConnection(server.url, timeout=10).stream("GET", "/")
        chunks = stream.chunks()
        assert next(chunks) == b"abc"
        with pytest.raises(HTTP_ERRORS):
            next(chunks)
        stream.close()
        stream.close()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *(("", None), ("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("1e9", 300.0), ("nan", None)),
        *(("inf", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)),
    ],
)
def test_retry_after_is_bounded(header: str, seconds: float | None) -> None:
    assert HttpResponse(503, {"retry-after": header}, b"").retry_after == seconds
