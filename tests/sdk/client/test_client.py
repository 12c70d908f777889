"""The replay client: requests, results and errors."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk.cli.answering_server import AnsweringServer
from tests.support.raw_answers import ScriptedServer
from tracereel.client import (
    AccessDeniedError,
    Client,
    ClientError,
    CollectorUnavailableError,
    InvalidRequestError,
    ReplayClient,
    TraceNotFoundError,
    UnexpectedAnswerError,
)
from tracereel.client.sync import parse_replay

TRACE = "trc_main_abc123"
RECORDED = Path(__file__).parents[1].joinpath("cli").joinpath("recorded_replay.json").read_bytes()


@pytest.fixture
def server():
    with AnsweringServer() as server:
        server.answer(f"/v1/replay/{TRACE}", RECORDED)
        yield server


class TestReplay:
    def test_returns_the_run_with_every_field_as_recorded(self, server):
        replay = ReplayClient(server.url).replay(TRACE)

        document = json.loads(RECORDED)
        assert document["trace_id"] == replay.trace_id
        assert document["summary"] == replay.summary
        assert [entry["details"] for entry in document["timeline"]] == [
            step.details for step in replay.timeline
        ]
        assert replay.raw == RECORDED

    def test_sends_the_key_as_x_api_key(self, server):
        ReplayClient(server.url, "secret").replay(TRACE)

        assert server.asked[0].headers["x-api-key"] == "secret"

    def test_an_endpoint_may_have_a_path(self, server):
        server.answer(f"/prefix/v1/replay/{TRACE}", RECORDED)

        assert ReplayClient(f"{server.url}/prefix/").replay(TRACE).trace_id == TRACE

    def test_an_unknown_trace_is_not_found(self, server):
        with pytest.raises(TraceNotFoundError, match="no events of trace 'trc_other'"):
            ReplayClient(server.url).replay("trc_other")

    @pytest.mark.parametrize("trace_id", ["", "a b", "../etc", "x" * 129, "abc\n", "mañana"])
    def test_invalid_trace_id_is_refused_before_the_request(self, server, trace_id):
        with pytest.raises(InvalidRequestError, match="expected 1 to 128 letters"):
            ReplayClient(server.url).replay(trace_id)

        assert server.asked == []

    @pytest.mark.parametrize("status", [401, 403])
    def test_refused_key_error_explains_how_to_pass_one(self, server, status):
        server.answer(f"/v1/replay/{TRACE}", {"error": {"message": "unknown key"}}, status=status)

        with pytest.raises(AccessDeniedError, match=r"unknown key.*TRACEREEL_API_KEY"):
            ReplayClient(server.url).replay(TRACE)

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_a_collector_that_is_busy_is_unavailable(self, server, status):
        error = {"error": {"code": "busy", "message": "store away", "hint": "wait"}}
        server.answer(f"/v1/replay/{TRACE}", error, status=status)

        with pytest.raises(CollectorUnavailableError, match="store away; wait"):
            ReplayClient(server.url).replay(TRACE)

    def test_a_redirect_is_not_followed(self, server):
        server.answer(f"/v1/replay/{TRACE}", b"", status=302)

        with pytest.raises(UnexpectedAnswerError, match="302"):
            ReplayClient(server.url).replay(TRACE)

        assert len(server.asked) == 1

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"hello",
            b"[]",
            b"{}",
            b'{"trace_id": "x", "timeline": [1], "summary": {}}',
            b"\xff",
        ],
    )
    def test_something_that_is_not_a_replay_is_named_as_such(self, server, body):
        server.answer(f"/v1/replay/{TRACE}", body)

        with pytest.raises(UnexpectedAnswerError, match="is it a tracereel collector"):
            ReplayClient(server.url).replay(TRACE)

    def test_refused_connection_is_collector_unavailable_error(self):
        with AnsweringServer() as gone:
            url = gone.url

        with pytest.raises(CollectorUnavailableError, match="no collector answers at"):
            ReplayClient(url).replay(TRACE)


class TestEndpoint:
    @pytest.mark.parametrize(
        "endpoint",
        [
            "",
            "localhost:4318",
            "ftp://host",
            "http://",
            "http://host:port",
            "http://a b",
            "http://é",
        ],
    )
    def test_invalid_endpoint_is_refused(self, endpoint):
        with pytest.raises(InvalidRequestError, match="expected http://HOST:PORT"):
            ReplayClient(endpoint)

    def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(self):
        with pytest.raises(InvalidRequestError) as caught:
            ReplayClient("http://localhost", "se\ncret")

        assert "cret" not in str(caught.value)


@given(
    st.binary()
    | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_any_answer_is_a_replay_or_a_client_error(body):
    """Any response gives a result or one of the client's own errors."""
    try:
        parse_replay(body, "http://localhost")
    except ClientError:
        pass


def test_unknown_filter_is_refused_before_the_request(server):
    client = Client(server.url)

    with pytest.raises(TypeError, match=r"no filter 'stauts'; expected agent, .*status"):
        client.traces(stauts="failed")
    with pytest.raises(TypeError, match="no filter 'min_errors'"):
        client.tail(min_errors=1)

    assert server.asked == []


class TestExport:
    @pytest.mark.parametrize("end", [b"", b"\n"], ids=["no newline", "newline"])
    def test_has_every_row_also_if_the_last_one_has_no_newline(self, tmp_path, end):
        body = b'{"n": 1}\n{"n": 2}' + end
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        seen = []
        with ScriptedServer(answer, answer) as server:
            client = Client(server.url)
            rows = list(client.export())
            client.export_to(tmp_path / "rows", progress=lambda done, _: seen.append(done))

        assert rows == [{"n": 1}, {"n": 2}]
        assert seen[-1] == 2
        assert (tmp_path / "rows").read_bytes() == body
