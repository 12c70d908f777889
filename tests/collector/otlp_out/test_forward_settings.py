"""Settings of the OTLP forwarder."""

import pytest

from tracereel_collector.errors import StartupError
from tracereel_collector.otlp_out.forward.target import (
    check_not_ourselves,
    parse_headers,
    parse_signals,
    parse_target,
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://jaeger:4318", ("jaeger", 4318, False, "/v1/traces")),
        ("http://jaeger", ("jaeger", 4318, False, "/v1/traces")),
        ("https://otel.example/base/", ("otel.example", 443, True, "/base/v1/traces")),
        ("http://[::1]:9/", ("::1", 9, False, "/v1/traces")),
    ],
)
def test_a_url_names_the_endpoint(url, expected):
    target = parse_target(url, "")

    assert (target.host, target.port, target.secure, f"{target.path}/v1/traces") == expected


@pytest.mark.parametrize(
    "url", ["jaeger:4318", "grpc://jaeger", "http://", "http://a:b", "http://a?x=1"]
)
def test_invalid_url_is_refused(url):
    with pytest.raises(StartupError, match="TRACEREEL_FORWARD_TO"):
        parse_target(url, "")


def test_headers_are_pairs_with_encoded_values_and_are_not_shown():
    target = parse_target("http://jaeger", "Authorization=Bearer%20abc, x-team = red,")

    assert target.headers == {"authorization": "Bearer abc", "x-team": "red"}
    assert "abc" not in repr(target)


@pytest.mark.parametrize("text", ["alone", "a b=c", "host=x", "Content-Length=1", "x=a%0Ab"])
def test_headers_that_cannot_be_sent_are_refused(text):
    with pytest.raises(StartupError, match="TRACEREEL_FORWARD_HEADERS"):
        parse_headers(text)


def test_signals_are_known_names():
    assert parse_signals("traces, logs") == {"traces", "logs"}
    with pytest.raises(StartupError, match="'spans' is not known"):
        parse_signals("spans")


@pytest.mark.parametrize(
    ("url", "host", "port", "is_us"),
    [
        ("http://127.0.0.1:4318", "127.0.0.1", 4318, True),
        ("http://localhost:4318", "127.0.0.1", 4318, True),
        ("http://localhost:4318", "0.0.0.0", 4318, True),
        ("http://127.0.0.1:4319", "127.0.0.1", 4318, False),
        ("http://192.0.2.7:4318", "127.0.0.1", 4318, False),
        ("http://no.such.host.invalid:4318", "127.0.0.1", 4318, False),
    ],
)
def test_a_collector_does_not_forward_to_itself(url, host, port, is_us):
    target = parse_target(url, "")
    if not is_us:
        check_not_ourselves(target, host=host, port=port)
        return
    with pytest.raises(StartupError, match="is this collector itself"):
        check_not_ourselves(target, host=host, port=port)
