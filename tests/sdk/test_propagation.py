"""Context propagation in messages: injection, extraction, and hostile headers."""

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context

import tracereel
from tracereel import traced_agent
from tracereel._core import recorder, remote_identity
from tracereel._core.context import current_execution
from tracereel._runtime.clock import MAX_DRIFT_SECONDS
from tracereel.propagation import carry, current_identity, extract, inject, subprocess_environ

Deliver = Callable[[], list[dict[str, Any]]]

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture(autouse=True)
def _no_parent_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("TRACEPARENT", "TRACESTATE", "BAGGAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(remote_identity, "_process", "unread")
    yield
    assert not trace.get_current_span().get_span_context().is_valid
    assert current_execution() is None


def parent_of(header: str) -> str | None:
    found = remote_identity.read([header], [], []).parent
    return None if found is None else f"{found.trace_id:032x}-{found.span_id:016x}"


# Headers.


@pytest.mark.parametrize(
    "header",
    [
        PARENT,
        f" {PARENT}\t",
        f"00-{TRACE}-{SPAN}-00",
        f"cc-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-what-comes-later",
    ],
)
def test_traceparents_that_are_valid(header: str) -> None:
    assert parent_of(header) == f"{TRACE}-{SPAN}"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-0x",
    ],
)
def test_traceparents_that_are_ignored(header: str) -> None:
    assert parent_of(header) is None


def test_a_traceparent_sent_twice_is_ignored_and_its_tracestate_with_it() -> None:
    assert remote_identity.read([PARENT, PARENT], ["a=1"], []).parent is None


def test_tracestate_keeps_its_order_and_32_members() -> None:
    given_state = ",".join(f"k{n}=v{n}" for n in range(40))
    parent = remote_identity.read([PARENT], [given_state], []).parent
    assert parent is not None
    assert list(parent.trace_state) == [f"k{n}" for n in range(32)]


def test_the_limit_of_baggage_is_the_sum_of_all_headers() -> None:
    headers = [f"k{n}={'x' * 1000}" for n in range(100)]
    assert len(remote_identity.read_baggage(headers)) == 8
    assert len(remote_identity.read_baggage([",".join(f"k{n}=1" for n in range(500))])) == 64
    assert remote_identity.read_baggage(["big=" + "x" * 9000]) == {}


def test_injected_baggage_respects_limits_with_our_members_first() -> None:
    with extract({"traceparent": PARENT, "baggage": "tracereel.request_id=req_1"}):
        theirs = ",".join(f"k{n}={'x' * 150}" for n in range(60))
        header = inject({"baggage": theirs})["baggage"]
    assert len(header) <= 8192
    assert len(header.split(",")) <= 64
    assert header.startswith("tracereel.request_id=req_1,")
    assert "k0=" in header


@pytest.mark.parametrize(
    "baggage_header",
    [
        "tracereel.trace_id=has%20space",
        "tracereel.trace_id=" + "a" * 129,
        "tracereel.request_id=a%0Ab",
        "tracereel.request_id=" + "a" * 257,
        "tracereel.hlc=zz",
        "tracereel.hlc=18E8692FB92E6444",
        "=;,==,;",
    ],
)
def test_invalid_propagated_ids_are_ignored(baggage_header: str) -> None:
    with extract({"baggage": baggage_header}) as identity:
        assert identity == remote_identity.RemoteIdentity()


@pytest.mark.parametrize(
    "carrier",
    [
        {"TraceParent": PARENT, "BAGGAGE": "tracereel.request_id=r"},
        {b"traceparent": PARENT.encode(), b"baggage": b"tracereel.request_id=r"},
        [("traceparent", PARENT.encode()), ("baggage", b"tracereel.request_id=r")],
        [(b"Traceparent", PARENT.encode()), (b"baggage", b"tracereel.request_id=r")],
        {"traceparent": [PARENT], "baggage": ["a=b", "tracereel.request_id=r"]},
        {"HTTP_TRACEPARENT": PARENT, "HTTP_BAGGAGE": "tracereel.request_id=r", "wsgi.input": 3},
        iter([("traceparent", PARENT), ("baggage", "tracereel.request_id=r")]),
    ],
)
def test_carriers_of_every_kind(carrier: object) -> None:
    with extract(carrier) as identity:
        assert identity.request_id == "r"
        assert trace.get_current_span().get_span_context().trace_id == int(TRACE, 16)


@pytest.mark.parametrize(
    "carrier", [None, {}, [], "text", b"bytes", [1, (2,)], {1: 2}, {"a": None}]
)
def test_carriers_with_nothing_in_them(carrier: object) -> None:
    with extract(carrier) as identity:
        assert identity == remote_identity.RemoteIdentity()


anything = st.one_of(st.text(max_size=200), st.binary(max_size=200), st.none(), st.integers())
headers = st.one_of(
    st.dictionaries(
        st.one_of(st.sampled_from(remote_identity.HEADERS), st.text(), st.binary()), anything
    ),
    st.lists(st.tuples(st.one_of(st.sampled_from(remote_identity.HEADERS), st.text()), anything)),
    st.fixed_dictionaries(
        {
            "traceparent": st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}-?.*"),
            "tracestate": st.text(),
            "baggage": st.lists(st.text(), max_size=5),
        }
    ),
)


@given(headers)
def test_extract_never_raises(carrier: Any) -> None:
    with extract(carrier):
        inject({})


ids = st.none() | st.text(min_size=1, max_size=40).filter(str.isprintable)


@given(
    trace_id=st.none() | st.from_regex(r"[A-Za-z0-9_.:-]{1,128}", fullmatch=True),
    request_id=ids,
    session_id=ids,
    user_id=ids,
    span=st.integers(1, 2**64 - 1),
    as_list=st.booleans(),
)
def test_inject_and_extract_round_trip(
    trace_id: str | None,
    request_id: str | None,
    session_id: str | None,
    user_id: str | None,
    span: int,
    as_list: bool,
) -> None:
    said = remote_identity.RemoteIdentity(trace_id, request_id, session_id, user_id)
    parent = f"00-{TRACE}-{span:016x}-01"
    members = {
        f"tracereel.{name}": value
        for name in remote_identity.NAMES
        if (value := getattr(said, name)) is not None
    }
    with extract(
        {"traceparent": parent, "baggage": remote_identity.write_baggage(members)}
    ) as first:
        assert first == said
        carrier: Any = inject([] if as_list else {})
    with extract(carrier) as identity:
        assert identity.hlc is not None or recorder.active() is None
        for name in remote_identity.NAMES[:-1]:
            assert getattr(identity, name) == getattr(said, name)
        assert trace.get_current_span().get_span_context().span_id == span


# Traced calls.


def test_a_traced_call_joins_the_remote_run(recorded: Deliver) -> None:
    message = {
        "traceparent": PARENT,
        "baggage": "tracereel.trace_id=trc_abc,tracereel.request_id=req_1,"
        "tracereel.session_id=ses_1,tracereel.user_id=us%C3%A9r",
    }

    @traced_agent("consumer")
    def consume() -> dict[str, str]:
        return inject({})

    with extract(message):
        onward = consume()
    consume()
    joined, _, alone, _ = recorded()
    assert joined["trace_id"] == "trc_abc"
    assert joined["otel_trace_id"] == TRACE
    assert joined["parent_span_id"] == SPAN
    assert (joined["request_id"], joined["session_id"]) == ("req_1", "ses_1")
    assert alone["trace_id"] != "trc_abc"
    assert alone["parent_span_id"] is None
    with extract(onward) as identity:
        assert identity.trace_id == "trc_abc"
        assert (identity.request_id, identity.session_id) == ("req_1", "ses_1")
        assert identity.user_id == "usér"
        current = trace.get_current_span().get_span_context()
        assert (f"{current.trace_id:032x}", f"{current.span_id:016x}") == (TRACE, joined["span_id"])


def test_the_run_around_is_left_for_that_of_the_message(recorded: Deliver) -> None:
    @traced_agent("inner")
    def inner() -> None: ...

    @traced_agent("outer")
    def outer() -> None:
        around = current_execution()
        with extract({"traceparent": PARENT}):
            assert current_execution() is None
            inner()
        with extract({"traceparent": "nonsense"}):
            assert current_execution() is around
        assert current_execution() is around

    outer()
    opened = {e["agent_name"]: e for e in recorded() if e["event_type"].endswith("started")}
    assert opened["inner"]["trace_id"] == TRACE
    assert opened["outer"]["trace_id"] != TRACE


def test_a_trace_id_equal_to_opentelemetrys_is_not_sent_twice(recorded: Deliver) -> None:
    carried = traced_agent("a")(lambda: inject({}))()
    assert "tracereel.trace_id" not in carried["baggage"]
    assert "tracereel.request_id" in carried["baggage"]
    assert "tracereel.hlc" in carried["baggage"]


def test_outside_of_any_run_nothing_is_written(recorded: Deliver) -> None:
    assert inject({"accept": "*/*"}) == {"accept": "*/*"}
    assert inject([]) == []


def test_without_identity_only_the_trace_context_is_written(recorded: Deliver) -> None:
    carried = traced_agent("a")(lambda: inject({}, identity=False))()
    assert set(carried) == {"traceparent"}


def test_headers_of_the_same_name_are_replaced_and_other_baggage_kept(recorded: Deliver) -> None:
    def send() -> tuple[dict[str, str], list[Any]]:
        mapping = inject({"Traceparent": "old", "Baggage": "theirs=1", "x": "y"})
        pairs = inject([(b"Traceparent", b"old"), (b"baggage", b"theirs=1")])
        return mapping, pairs

    mapping, pairs = traced_agent("a")(send)()
    assert set(mapping) == {"x", "traceparent", "baggage"}
    assert mapping["baggage"].endswith(",theirs=1")
    assert [name for name, _ in pairs] == [b"traceparent", b"baggage"]
    assert all(isinstance(value, bytes) for _, value in pairs)


def test_the_users_own_baggage_travels_too(recorded: Deliver) -> None:
    with extract({"traceparent": PARENT, "baggage": "tenant=t%201,tracereel.hlc=1"}):
        assert baggage.get_all() == {"tenant": "t 1"}
        assert "tenant=t%201" in inject({})["baggage"]
    assert baggage.get_all() == {}


def test_with_a_noop_provider_the_message_has_the_ids_of_the_events(
    sink: Any, registry: Any
) -> None:
    tracereel.configure(
        endpoint=sink.url, registry=registry, tracer_provider=trace.NoOpTracerProvider()
    )
    carried = traced_agent("a")(lambda: inject({}))()
    tracereel.flush(20.0)
    assert carried["traceparent"].split("-")[1:3] == [
        sink.events[0]["otel_trace_id"],
        sink.events[0]["span_id"],
    ]


def test_a_clock_ahead_is_followed_within_the_bound_only(
    recorded: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced_agent("a")(lambda: None)()
    clock = recorder.active().clock  # type: ignore[union-attr]
    now = int(clock.tick(), 16)
    bound = round(MAX_DRIFT_SECONDS * 1e9)
    for ahead, followed in ((bound * 2, False), (bound // 2, True)):
        sent = now + ahead
        with extract({"traceparent": PARENT, "baggage": f"tracereel.hlc={sent:016x}"}):
            assert (int(clock.tick(), 16) > sent) is followed


def test_recording_off_still_passes_the_trace_context_on() -> None:
    tracereel.configure(enabled=False)
    with extract({"traceparent": PARENT, "baggage": "tracereel.request_id=r"}):
        carried = inject({})
    assert carried == {"traceparent": PARENT, "baggage": "tracereel.request_id=r"}


# Threads, executors, tasks.


def identities_of(function: Callable[[], Any], count: int = 1) -> list[Any]:
    with ThreadPoolExecutor(4) as executor:
        return [future.result(20) for future in [executor.submit(function) for _ in range(count)]]


def test_carry_takes_the_run_into_threads_at_once_and_again(recorded: Deliver) -> None:
    meet = threading.Barrier(4)

    @traced_agent("inner")
    def inner() -> str:
        meet.wait(20)
        return str(current_identity().request_id)

    @traced_agent("outer")
    def outer() -> tuple[str, list[str]]:
        return str(current_identity().request_id), identities_of(carry(inner), 4)

    request_id, seen = outer()
    assert seen == [request_id] * 4
    events = recorded()
    outer_span = next(e["span_id"] for e in events if e["agent_name"] == "outer")
    assert {e["parent_span_id"] for e in events if e["agent_name"] == "inner"} == {outer_span}
    assert identities_of(current_execution) == [None]


def test_carry_gives_results_and_exceptions_as_they_are() -> None:
    assert carry(divmod)(7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        carry(divmod)(1, 0)


def test_carry_binds_coroutine_functions_for_another_loop(recorded: Deliver) -> None:
    async def inner() -> str | None:
        return current_identity().request_id

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:

        @traced_agent("outer")
        def outer() -> tuple[str | None, str | None]:
            sent = asyncio.run_coroutine_threadsafe(carry(inner)(), loop)  # type: ignore[arg-type]
            return current_identity().request_id, sent.result(20)

        here, there = outer()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
    assert here is not None
    assert here == there


def test_tasks_carry_an_extracted_run_by_themselves(recorded: Deliver) -> None:
    async def handle(number: int) -> str | None:
        with extract({"traceparent": PARENT, "baggage": f"tracereel.request_id=r{number}"}):
            await asyncio.sleep(0)
            return await asyncio.create_task(inner())

    async def inner() -> str | None:
        await asyncio.sleep(0)
        return current_identity().request_id

    async def main() -> list[str | None]:
        return await asyncio.gather(*(handle(number) for number in range(100)))

    assert asyncio.run(main()) == [f"r{number}" for number in range(100)]


def test_a_carried_function_can_be_pickled_for_a_process_pool(recorded: Deliver) -> None:
    @traced_agent("a")
    def bind() -> tuple[str | None, bytes]:
        return current_identity().request_id, pickle.dumps(carry(current_identity))

    request_id, pickled = bind()
    assert pickle.loads(pickled)().request_id == request_id


# The environment.


def test_a_child_gets_the_run_and_nothing_stale(
    recorded: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"PATH": "/bin", "TRACEPARENT": "old", "TRACESTATE": "a=1", "TRACEREEL_TRACE_ID": "old"}
    environ = traced_agent("a")(lambda: subprocess_environ(old))()
    assert set(environ) == {"PATH", "TRACEPARENT", "BAGGAGE"}
    assert environ["TRACEPARENT"] != "old"
    assert subprocess_environ({"PATH": "/bin"}) == {"PATH": "/bin"}


def test_variables_of_ours_win_over_the_baggage() -> None:
    incoming = remote_identity.from_environment(
        {
            "TRACEPARENT": PARENT,
            "BAGGAGE": "tracereel.request_id=r1,tracereel.session_id=s1",
            "TRACEREEL_REQUEST_ID": "r2",
            "TRACEREEL_TRACE_ID": "not usable",
        }
    )
    assert incoming.identity == remote_identity.RemoteIdentity(request_id="r2", session_id="s1")


def test_the_parent_process_is_adopted_in_every_thread(
    recorded: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    monkeypatch.setenv("TRACEREEL_REQUEST_ID", "req_env")
    identities_of(traced_agent("a")(lambda: None))
    opened = recorded()[0]
    assert (opened["trace_id"], opened["parent_span_id"]) == (TRACE, SPAN)
    assert opened["request_id"] == "req_env"


def test_a_message_is_nearer_than_the_environment(
    recorded: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    monkeypatch.setenv("TRACEREEL_REQUEST_ID", "req_env")
    with extract({"traceparent": f"00-{'a' * 32}-{SPAN}-01"}) as identity:
        assert remote_identity.remote_identity() is identity
        assert identity.request_id is None
        assert remote_identity.parent_context() is None
    token = otel_context.attach(trace.set_span_in_context(trace.INVALID_SPAN))
    assert remote_identity.parent_context() is not None
    otel_context.detach(token)


def test_tasks_that_share_an_extraction_restore_their_own_context() -> None:
    shared = extract({"traceparent": PARENT})

    async def first(entered: asyncio.Event, left: asyncio.Event) -> bool:
        with shared:
            await entered.wait()
        left.set()
        return trace.get_current_span().get_span_context().is_valid

    async def second(entered: asyncio.Event, left: asyncio.Event) -> bool:
        with shared:
            entered.set()
            await left.wait()
        return trace.get_current_span().get_span_context().is_valid

    async def both() -> list[bool]:
        entered, left = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(first(entered, left), second(entered, left))

    assert asyncio.run(both()) == [False, False]
