"""Invalid input: a 4xx that names the field, never a 500, never unbounded memory."""

import gzip
import http.client as http_client
import json
import socket
import threading
from urllib.parse import urlsplit

import psutil
import pytest

from tests.support.collector import http
from tests.support.contract import example

GOOD = example("agent.execution.started")


def post(collector, body, **headers):
    return http("POST", f"{collector.url}/v1/events?wait=stored&timeout=60", body, headers)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 400, "the body is empty"),
        (b"   ", 400, "the body is empty"),
        (b"{nope", 400, "not valid JSON"),
        (b"[1, 2", 400, "not a valid JSON array"),
        (json.dumps({**GOOD, "agent_name": 5}).encode(), 400, "agent_name: expected `str`"),
        (json.dumps({**GOOD, "event_type": "x.y"}).encode(), 400, "event_type: 'x.y' is unknown"),
        (
            json.dumps({k: v for k, v in GOOD.items() if k != "request_id"}).encode(),
            400,
            "request_id: missing",
        ),
        (json.dumps({**GOOD, "event_version": "2.0.0"}).encode(), 400, "expected a 1.x version"),
        (json.dumps({**GOOD, "x": float("nan")}).encode(), 400, "x: expected a number of 64 bits"),
        (b'{"event_id": "\xff"}', 400, "event_id: expected text in UTF-8"),
        (b'{"x": 1e999}', 400, "x: expected a number of 64 bits"),
        (b"{}", 400, "event_type: missing"),
        ("\ufeff{}".encode(), 400, "not valid JSON"),
        ("{}".encode("utf-16"), 400, "not valid JSON"),
        (b"[" * 500_000, 400, "not a valid JSON array"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_body_is_refused_with_a_reason(collector, body, status, reason):
    answer = post(collector, body)

    assert answer.status == status
    error = answer.json()["error"]
    assert reason in error["message"]
    assert set(error) == {"code", "message", "hint"}


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/nothing"), ("PUT", "/v1/traces")])
def test_unknown_route_error_links_to_the_documentation(collector, method, path):
    answer = http(method, f"{collector.url}{path}")

    assert answer.status in (404, 405)
    assert answer.json()["error"]["hint"] == "GET /docs lists the routes and their methods"


def test_in_a_batch_the_good_are_stored_and_numbered_and_the_bad_named(collector, trace_id):
    batch = [
        {**GOOD, "event_id": f"{trace_id}-1", "trace_id": trace_id},
        {**GOOD, "event_id": f"{trace_id}-2", "trace_id": trace_id, "input_size_bytes": -1},
        {**GOOD, "event_id": f"{trace_id}-3", "trace_id": trace_id},
    ]

    answer = post(collector, json.dumps(batch).encode()).json()

    assert answer["accepted"] == 2
    assert [each["index"] for each in answer["rejected"]] == [1]
    assert answer["rejected"][0]["event_id"] == f"{trace_id}-2"
    assert "input_size_bytes" in answer["rejected"][0]["reason"]
    timeline = collector.replay(trace_id).json()["timeline"]
    first = answer["first_sequence_number"]
    assert [entry["details"]["sequence_number"] for entry in timeline] == [first, first + 1]


@pytest.mark.parametrize(
    "value",
    [
        b"1e308",
        b"-0.0",
        b"123456789012345678901234567890",
        b'"\\u0000\\ud83d\\ude00"',
        b"[" * 150 + b"]" * 150,
        b'{"event_id": "inner", "trace_id": 7}',
        b'"' + "ñ€😀".encode() * 1000 + b'"',
    ],
    ids=range(7),
)
def test_odd_values_that_pass_the_door_are_read_by_the_engine_too(collector, trace_id, value):
    line = json.dumps({**GOOD, "event_id": trace_id, "trace_id": trace_id}).encode()

    assert post(collector, line[:-1] + b', "odd": ' + value + b"}").status == 200

    (entry,) = collector.replay(trace_id).json()["timeline"]
    assert entry["details"]["event_id"] == trace_id
    assert entry["details"]["odd"] == json.loads(value)


def test_duplicate_json_key_is_stored_as_validated(collector, trace_id):
    line = json.dumps({**GOOD, "event_id": trace_id, "trace_id": trace_id}).encode()
    twice = b'{"trace_id": "another-trace", ' + line[1:]

    assert post(collector, twice).status == 200

    assert collector.replay(trace_id).status == 200
    assert collector.replay("another-trace").status == 404


def test_errors_for_wrong_routes_methods_and_encodings_list_the_accepted(collector):
    assert http("GET", f"{collector.url}/v1/nothing").json()["error"]["code"] == "not_found"
    assert http("PUT", f"{collector.url}/v1/events", b"{}").status == 405
    answer = post(collector, b"{}", **{"Content-Encoding": "br"})
    assert answer.status == 415
    assert "gzip" in answer.json()["error"]["message"]
    answer = collector.replay("no%20such%20trace")
    assert answer.status == 400
    assert "letters, digits" in answer.json()["error"]["message"]


def resident(collector):
    return psutil.Process(collector.process.pid).memory_info().rss


def peak_while(collector, act):
    """Return the peak resident memory during a call."""
    peak, stop = resident(collector), threading.Event()

    def watch():
        nonlocal peak
        while not stop.wait(0.01):
            peak = max(peak, resident(collector))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        act()
    finally:
        stop.set()
        thread.join()
    return peak


def test_a_huge_body_is_refused_before_it_is_read(collector):
    url = urlsplit(collector.url)
    before = resident(collector)

    def send():
        with socket.create_connection((url.hostname, url.port), timeout=10) as connection:
            connection.sendall(
                b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n"
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 413")

    assert peak_while(collector, send) - before < 32 << 20


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_a_client_that_sends_100_mb_before_it_listens_gets_its_413(collector, chunked):
    url = urlsplit(collector.url)
    before = resident(collector)
    piece = bytes(1_000_000)

    def send():
        connection = http_client.HTTPConnection(url.hostname, url.port, timeout=60)
        body = (piece for _ in range(100)) if chunked else piece * 100
        connection.request("POST", "/v1/events", body, encode_chunked=chunked)
        response = connection.getresponse()
        assert response.status == 413
        assert "67108864" in json.loads(response.read())["error"]["message"]
        connection.close()

    assert peak_while(collector, send) - before < 160 << 20


def test_headers_without_end_are_refused(collector):
    url = urlsplit(collector.url)
    with socket.create_connection((url.hostname, url.port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 66_000)
        assert connection.recv(100).startswith(b"HTTP/1.1 431")
    assert http("GET", f"{collector.url}/healthz").status == 200


def test_many_requests_on_one_connection_have_headers_of_their_own_each(collector):
    url = urlsplit(collector.url)
    connection = http_client.HTTPConnection(url.hostname, url.port, timeout=10)
    for _ in range(5):
        connection.request("GET", "/healthz", headers={"X": "y" * 30_000})
        assert connection.getresponse().read()
    connection.close()


def test_an_empty_array_is_nothing_to_do(collector):
    answer = post(collector, b"[]")

    assert answer.status == 200
    assert answer.json() == {
        "accepted": 0,
        "first_sequence_number": None,
        "rejected": [],
        "duplicates": 0,
        "status": "stored",
    }


def test_a_parameter_that_is_not_known_is_refused_in_the_one_shape(collector):
    answer = http("POST", f"{collector.url}/v1/events?wait=forever", b"{}")

    assert answer.status == 400
    assert answer.json()["error"]["message"].startswith("wait: ")


def test_millions_of_bad_lines_cost_neither_memory_nor_time(collector):
    before = resident(collector)

    def send():
        packed = gzip.compress(b"1\n" * 8_000_000)
        answer = post(collector, packed, **{"Content-Encoding": "gzip"})
        assert answer.status == 413

    assert peak_while(collector, send) - before < 160 << 20


def test_a_gzip_bomb_stops_at_the_limit(collector):
    bomb = gzip.compress(bytes(1 << 30), 9)
    before = resident(collector)

    def send():
        answer = post(collector, bomb, **{"Content-Encoding": "gzip"})
        assert answer.status == 413
        assert "67108864" in answer.json()["error"]["message"]

    assert peak_while(collector, send) - before < 160 << 20


def test_ordinary_event_is_accepted_after_bad_input(collector, trace_id):
    event = {**GOOD, "event_id": trace_id, "trace_id": trace_id}

    assert post(collector, json.dumps(event).encode()).status == 200
    assert collector.replay(trace_id).status == 200
