"""Tasks of Celery, RQ and arq: they continue the run of the program that enqueued them."""

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator
from logging import Logger
from typing import Any
from uuid import uuid4

import pytest

celery = pytest.importorskip("celery")
fakeredis = pytest.importorskip("fakeredis")
rq = pytest.importorskip("rq")
arq = pytest.importorskip("arq")

from celery.contrib.testing.worker import start_worker  # noqa: E402
from celery.exceptions import Ignore  # noqa: E402

import tracereel  # noqa: E402
from tests.sdk.conftest import SDK  # noqa: E402
from tracereel.integrations import celery as traced_celery  # noqa: E402
from tracereel.integrations.rq import TracedJob  # noqa: E402
from tracereel.propagation import current_identity, extract, inject  # noqa: E402

Deliver = Callable[[], list[dict[str, Any]]]
STARTED, COMPLETED = "agent.pipeline.started", "agent.pipeline.completed"


@tracereel.traced_agent("indexer")
def index(text: str) -> int:
    return len(text)


@tracereel.traced_agent("web")
def enqueue(send: Callable[[], Any], *, session_id: str, user_id: str) -> Any:
    return send()


def ids_of(events: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    names = ("trace_id", "request_id", "session_id", "user_id")
    return {tuple(event.get(name) for name in names) for event in events}


def check_one_run(events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Check that enqueuing program and task are one run; return the task's closing event."""
    ((_, request_id, session_id, user_id),) = ids_of(
        [e for e in events if e["event_type"] != "agent.decision.recorded"]
    )
    assert request_id is not None
    assert (session_id, user_id) == ("s1", "u1")
    opened = {
        e.get("agent_name") or e["pipeline_type"]: e for e in events if "started" in e["event_type"]
    }
    assert opened[name]["parent_span_id"] == opened["web"]["span_id"]
    assert opened["indexer"]["parent_span_id"] == opened[name]["span_id"]
    (closed,) = [e for e in events if e["event_type"] == COMPLETED]
    assert (closed["pipeline_type"], closed["status"]) == (name, "success")
    assert closed["agents_succeeded"] == 1
    return closed


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Restore the logging that workers of Celery, RQ and arq set up for their process."""
    named = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, Logger)]
    loggers = [logging.root, *named]
    before = [
        (each, each.level, each.propagate, each.disabled, each.handlers[:]) for each in loggers
    ]
    yield
    logging.captureWarnings(False)
    logging.disable(logging.NOTSET)
    for logger, level, propagate, disabled, handlers in before:
        logger.setLevel(level)
        logger.propagate, logger.disabled, logger.handlers = propagate, disabled, handlers


# Celery: a worker of its own in another thread, on the broker in memory.


@pytest.fixture
def app(recorded: Deliver) -> Iterator[Any]:
    made = celery.Celery(
        "tests", broker="memory://", backend="cache+memory://", set_as_current=False
    )
    made.conf.update(task_default_queue=f"q-{uuid4()}", worker_hijack_root_logger=False)
    traced_celery.instrument()
    yield made
    traced_celery.uninstrument()


def working(app: Any) -> Any:
    return start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=60)


def test_celery_task_continues_the_run_that_enqueued_it(app: Any, recorded: Deliver) -> None:
    @app.task(name="index_text", shared=False)
    def index_text(text: str) -> int:
        return index(text)

    with working(app):
        sent = enqueue(lambda: index_text.delay("tea"), session_id="s1", user_id="u1")
        assert sent.get(timeout=60) == 3
    closed = check_one_run(recorded(), "index_text")
    assert (closed["task_id"], closed["task_attempt"]) == (sent.id, 1)
    assert closed["task_queue"] == app.conf.task_default_queue


def test_celery_retries_and_chained_tasks_stay_in_the_run(app: Any, recorded: Deliver) -> None:
    @app.task(name="flaky", shared=False, bind=True, max_retries=2)
    def flaky(self: Any, text: str) -> str:
        if self.request.retries == 0:
            raise self.retry(exc=ConnectionError("down"), countdown=0)
        return text.upper()

    @app.task(name="then", shared=False)
    def then(text: str) -> int:
        return index(text)

    with working(app):
        chained = celery.chain(flaky.s("tea"), then.s())
        assert enqueue(chained.delay, session_id="s1", user_id="u1").get(timeout=60) == 3
    events = recorded()
    assert len(ids_of(events)) == 1
    closed = [e for e in events if e["event_type"] == COMPLETED]
    shown = [(e["pipeline_type"], e["task_attempt"], e["status"]) for e in closed]
    assert shown == [("flaky", 1, "failed"), ("flaky", 2, "success"), ("then", 1, "success")]
    assert (closed[0]["error_type"], closed[0]["error_message"]) == ("ConnectionError", "down")


def test_celery_tasks_without_a_run_are_runs_of_their_own(app: Any, recorded: Deliver) -> None:
    seen: list[Any] = []

    @app.task(name="twice", shared=False)
    def twice(user_id: str) -> None:
        index("a")
        index("b")
        seen.append(current_identity().user_id)

    with working(app):
        for user in ("ada", "bob"):
            twice.delay(user_id=user).get(timeout=60)
    runs: dict[str, set[Any]] = {}
    for event in recorded():
        runs.setdefault(event["trace_id"], set()).add(event["user_id"])
    assert sorted(map(sorted, runs.values())) == [["ada"], ["bob"]]
    assert seen == ["ada", "bob"]


def test_celery_task_that_fails_or_exhausts_retries_is_recorded_as_failed(
    app: Any, recorded: Deliver
) -> None:
    @app.task(name="fails", shared=False)
    def fails() -> None:
        raise LookupError("no such order")

    @app.task(name="ignored", shared=False)
    def ignored() -> None:
        raise Ignore

    done = threading.Event()

    @app.task(name="last", shared=False)
    def last() -> None:
        done.set()

    with working(app):
        with pytest.raises(LookupError, match="no such order"):
            fails.delay().get(timeout=60)
        ignored.delay()
        last.delay().get(timeout=60)
    assert done.is_set()
    closed = {e["pipeline_type"]: e for e in recorded() if e["event_type"] == COMPLETED}
    assert (closed["fails"]["status"], closed["fails"]["error_type"]) == ("failed", "LookupError")
    assert closed["ignored"]["status"] == closed["last"]["status"] == "success"


def test_eager_celery_task_is_part_of_the_current_run(app: Any, recorded: Deliver) -> None:
    @app.task(name="index_text", shared=False)
    def index_text(text: str) -> int:
        return index(text)

    send = enqueue(lambda: index_text.apply(("tea",)), session_id="s1", user_id="u1")
    assert send.get() == 3
    check_one_run(recorded(), "index_text")


def test_uninstrumented_celery_records_no_tasks(app: Any, recorded: Deliver) -> None:
    traced_celery.instrument()
    traced_celery.uninstrument()

    @app.task(name="plain", shared=False)
    def plain() -> None: ...

    with working(app):
        plain.delay().get(timeout=60)
    assert recorded() == []


# RQ: a simple worker on a Redis in memory.


def look(text: str) -> int:
    return index(text)


def broken() -> None:
    raise LookupError("no such order")


def work_off(connection: Any, queue: Any) -> None:
    worker = rq.SimpleWorker([queue], connection=connection, job_class=TracedJob)
    worker.work(burst=True)


@pytest.fixture
def redis() -> Iterator[Any]:
    with fakeredis.FakeStrictRedis() as connection:
        yield connection


def test_rq_job_continues_the_run_that_enqueued_it(redis: Any, recorded: Deliver) -> None:
    queue = rq.Queue(connection=redis, job_class=TracedJob)
    sent = enqueue(
        lambda: queue.enqueue(look, "tea", meta={"mine": 1}), session_id="s1", user_id="u1"
    )
    work_off(redis, queue)
    assert sent.return_value() == 3
    assert sent.get_meta(refresh=True)["mine"] == 1
    closed = check_one_run(recorded(), f"{__name__}.look")
    assert (closed["task_id"], closed["task_queue"]) == (sent.id, "default")


def test_rq_jobs_enqueued_at_once_carry_the_run_too(redis: Any, recorded: Deliver) -> None:
    queue = rq.Queue(connection=redis, job_class=TracedJob)
    jobs = [rq.Queue.prepare_data(look, ("tea",)), rq.Queue.prepare_data(look, ("coffee",))]
    enqueue(lambda: queue.enqueue_many(jobs), session_id="s1", user_id="u1")
    work_off(redis, queue)
    events = recorded()
    assert len(ids_of(events)) == 1
    assert sum(event["event_type"] == COMPLETED for event in events) == 2


def test_rq_job_that_fails_is_recorded_with_each_attempt(redis: Any, recorded: Deliver) -> None:
    queue = rq.Queue(connection=redis, job_class=TracedJob)
    sent = enqueue(
        lambda: queue.enqueue(broken, retry=rq.Retry(max=1)), session_id="s1", user_id="u1"
    )
    work_off(redis, queue)
    assert sent.is_failed
    events = recorded()
    assert len(ids_of(events)) == 1
    closed = [e for e in events if e["event_type"] == COMPLETED]
    shown = [(e["task_id"], e["status"], e["error_type"]) for e in closed]
    assert shown == [(sent.id, "failed", "LookupError")] * 2


def test_rq_job_runs_without_recording(redis: Any) -> None:
    tracereel.configure(enabled=False)
    queue = rq.Queue(connection=redis, job_class=TracedJob)
    sent = queue.enqueue(look, "tea")
    work_off(redis, queue)
    assert sent.return_value() == 3


# arq: the documented lines, with its own worker on a Redis in memory.


async def answer(ctx: Any, text: str, headers: dict[str, str]) -> int:
    with extract(headers), tracereel.traced_pipeline("answer"):
        return index(text)


def test_arq_job_continues_the_run_by_the_documented_lines(
    recorded: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_redis_info(_redis: Any, _log: Any) -> None:
        """The Redis in memory has no INFO."""

    monkeypatch.setattr("arq.worker.log_redis_info", no_redis_info)

    async def both() -> Any:
        pool = arq.ArqRedis(
            connection_pool=fakeredis.FakeAsyncRedis().connection_pool  # type: ignore[attr-defined]
        )

        @tracereel.traced_agent("web")
        async def ask(*, session_id: str, user_id: str) -> Any:
            return await pool.enqueue_job("answer", "tea", headers=inject({}))

        job = await ask(session_id="s1", user_id="u1")
        worker = arq.Worker(
            functions=[answer], redis_pool=pool, burst=True, poll_delay=0.01, handle_signals=False
        )
        await worker.main()
        result = await job.result(timeout=60)
        await pool.aclose()
        return result

    assert asyncio.run(both()) == 3
    check_one_run(recorded(), "answer")


# The page for newcomers.


def snippets() -> list[str]:
    page = (SDK.parent / "docs" / "start" / "workers.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def test_the_programs_of_the_page_run_as_printed(recorded: Deliver) -> None:
    in_celery, in_rq, in_arq = ({"__name__": "snippet"} for _ in range(3))
    for code, names in zip(snippets(), (in_celery, in_rq, in_arq), strict=True):
        exec(compile(code, "workers.md", "exec"), names)
    try:
        with working(in_celery["app"]):
            assert in_celery["index_text"].delay("tea").get(timeout=60) == 3
    finally:
        traced_celery.uninstrument()
    assert asyncio.run(in_arq["answer"]({}, "tea", inject({}))) == "TEA"
    names = {e["pipeline_type"] for e in recorded() if e["event_type"] == COMPLETED}
    assert names == {"snippet.index_text", "builtins.len", "answer"}
