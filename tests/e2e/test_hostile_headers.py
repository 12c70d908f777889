"""Hostile headers are refused or ignored and never cause a 5xx error."""

import itertools
import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.support.collector import http

VALUES = [
    b"",
    b"[",
    b"[::1",
    b"//",
    b"http://[",
    b"\xff\xfe",
    b"a" * 5000,
    b"%00",
    b"null",
    b"-1",
    b"1e5",
    b"99999999999999999999999999",
    b"gzip, gzip",
    b"Bearer",
    b"Bearer  ",
    b"application/json; charset=\xff",
]
NAMES = [
    b"Host",
    b"Origin",
    b"Authorization",
    b"x-api-key",
    b"x-tenant",
    b"Content-Type",
    b"Content-Encoding",
    b"Accept",
    b"traceparent",
    b"Cookie",
]
TARGETS = [
    (b"GET", b"/v1/replay/trc"),
    (b"POST", b"/v1/events"),
    (b"POST", b"/v1/traces"),
    (b"GET", b"/v1/keys"),
    (b"GET", b"/nothing"),
    (b"GET", b"/v1/replay/%ff%fe?wait=%ff&tenant=%00"),
]


def status_of(collector, request):
    url = urlsplit(collector.url)
    with socket.create_connection((url.hostname, url.port), timeout=20) as connection:
        connection.sendall(request)
        answer = connection.recv(4096)
    return int(answer.split(b" ", 2)[1])


def test_invalid_http_request_is_400_in_the_error_format(collector):
    """A typed non-ASCII URL, as `curl` sends it."""
    url = urlsplit(collector.url)
    with socket.create_connection((url.hostname, url.port), timeout=20) as connection:
        connection.sendall("GET /v1/traces?q=mañana HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-length: %d\r\n" % len(body) in head
    assert json.loads(body)["error"] == {
        "code": "bad_request",
        "message": "this is not a valid HTTP/1.1 request",
        "hint": "in an address, characters beyond ASCII and spaces are written as %C3%B1, %20",
    }


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: b" ".join(target).decode())
def test_no_header_makes_a_server_error(collector, target):
    method, path = target
    odd = {}
    for name, value in itertools.product(NAMES, VALUES):
        host = b"" if name == b"Host" else b"Host: localhost\r\n"
        request = (
            b"%b %b HTTP/1.1\r\n%b%b: %b\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
            % (*(method, path, host, name, value),)
        )
        status = status_of(collector, request)
        if not 200 <= status < 500:
            odd[name, value] = status
    assert odd == {}
    assert http("GET", f"{collector.url}/healthz").status == 200
