"""Fields that the contract requires have a value wherever one can be known."""

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tracereel import (
    record_decision,
    traced_agent,
    traced_decision,
    traced_pipeline,
    traced_step,
)
from tracereel._core import package_version
from tracereel._runtime import time_zone
from tracereel.resilience import fixed_delay, retry
from tracereel.testing import EventRecorder, StepClock, assert_event


def test_a_failure_always_has_code_category_and_stage() -> None:
    @traced_agent("inner_agent")
    def inner() -> None:
        raise LookupError("nothing")

    @traced_agent("outer_agent")
    def outer() -> None:
        with traced_step("lookup"):
            inner()

    @traced_pipeline("booking")
    def book() -> None:
        raise KeyError("before any agent")

    with EventRecorder() as events:
        for failing in (outer, book):
            with pytest.raises(LookupError):
                failing()
    unknown = {"error_code": "UNHANDLED", "error_category": "permanent"}
    failed = "agent.execution.failed"
    assert_event(events, failed, agent_name="inner_agent", stage="agent", **unknown)
    assert_event(events, failed, agent_name="outer_agent", stage="lookup", **unknown)
    assert_event(events, "agent.step.completed", stage="lookup", **unknown)
    assert_event(events, "agent.pipeline.completed", stage="pipeline", **unknown)


def test_a_decision_is_timed_from_its_start_or_from_that_of_the_execution() -> None:
    clock = StepClock(step_ms=0)

    @traced_agent("temporal_agent")
    def resolve() -> None:
        clock.advance(0.1)
        record_decision("first")
        with traced_step("check"), traced_decision("second"):
            clock.advance(0.05)
        record_decision("third", duration_ms=7.6)

    with EventRecorder(clock=clock) as events:
        resolve()
    recorded = events.get_events("agent.decision.recorded")
    assert [each["decision_duration_ms"] for each in recorded] == [100, 50, 8]


INSTALLED = """
import tracereel
from tracereel.testing import EventRecorder

@tracereel.traced_agent("{name}")
def work() -> None: ...

@tracereel.traced_agent("{name}", version="7")
def versioned() -> None: ...
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installed packages: plain, namespaced, editable, and one whose name another owns."""

    def install(name: str, version: str, root: Path, direct: str | None = None) -> None:
        about = root / f"{name.replace('-', '_')}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        if direct is not None:
            (about / "direct_url.json").write_text(direct)

    def module(path: Path, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(INSTALLED.format(name=name))

    site, project, other = tmp_path / "site", tmp_path / "my project", tmp_path / "other"
    install("seed-plain", "1.2.3", site)
    module(site / "seed_plain" / "agents.py", "plain")
    install("seed-cloud-parsing", "0.4", site)
    module(site / "seed" / "cloud" / "parsing" / "agents.py", "namespaced")
    url = project.as_uri()
    install("seed-editable", "2.0", site, f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')
    module(project / "src" / "seed_editable" / "agents.py", "editable")
    install("seed-owned", "9.9", site)
    module(other / "seed_owned" / "agents.py", "not the installed one")
    module(other / "seed_versioned" / "agents.py", "with a version of its own")
    (other / "seed_versioned" / "__init__.py").write_text('__version__ = "3.1"\n')
    for path in (site, project / "src", other):
        monkeypatch.syspath_prepend(str(path))
    importlib.invalidate_caches()
    return tmp_path


@pytest.mark.parametrize(
    ("module", "version"),
    [
        ("seed_plain.agents", "1.2.3"),
        ("seed.cloud.parsing.agents", "0.4"),
        ("seed_editable.agents", "2.0"),
        ("seed_owned.agents", None),
        ("seed_versioned.agents", "3.1"),
    ],
)
def test_the_agent_version_is_that_of_the_functions_package(
    packages: Path, module: str, version: str | None
) -> None:
    package_version._of_module.cache_clear()
    found = importlib.import_module(module)
    with EventRecorder() as events:
        found.work()
        found.versioned()
    for event_type in ("agent.execution.started", "agent.execution.completed"):
        first, second = events.get_events(event_type)
        assert (first["agent_version"], second["agent_version"]) == (version, "7")


def test_a_package_that_is_run_as_a_program_has_its_version(packages: Path) -> None:
    script = packages / "site" / "seed_plain" / "__main__.py"
    body = INSTALLED.format(name="main")
    script.write_text(
        f"{body}\nwith EventRecorder() as events:\n    work()\n"
        "print(events.events[0]['agent_version'])\n"
    )
    path = os.pathsep.join([str(packages / "site"), *filter(None, sys.path)])
    run = subprocess.run(
        [sys.executable, "-m", "seed_plain"],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == "1.2.3"
    run = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == "None"


@traced_agent("parsing_agent")
def parse() -> None: ...


@traced_agent("temporal_agent")
@traced_agent("calendar_agent")
def resolve() -> None: ...


def test_the_completed_pipeline_has_its_agents_as_they_ran() -> None:
    attempts = iter([OSError("x"), None])

    @retry(2, strategy=fixed_delay(0))
    @traced_agent("geo_agent")
    def locate() -> None:
        if (error := next(attempts)) is not None:
            raise error

    @traced_pipeline("booking")
    def book() -> None:
        parse()
        locate()
        resolve()

    with EventRecorder() as events:
        book()
    started = assert_event(events, "agent.pipeline.started")
    assert (started["agent_sequence"], started["sequence_length"]) == (None, None)
    ran = ["parsing_agent", "geo_agent", "temporal_agent", "calendar_agent"]
    completed = assert_event(events, "agent.pipeline.completed", agent_sequence=ran)
    assert completed["sequence_length"] == completed["agents_executed"] == 4


@dataclass
class Request:
    user_prompt: str
    timezone: str


@pytest.mark.parametrize(
    ("args", "kwargs", "prompt"),
    [
        ((["history"], "any text"), {}, "any text"),
        ((3,), {"question": "by name"}, "by name"),
        ((3,), {"trace_id": "trc_1", "timezone": "Asia/Tokyo", "wish": "a wish"}, "a wish"),
        (("a text",), {"prompt": "the prompt"}, "the prompt"),
        (("a text", Request("of the request", "Asia/Tokyo")), {}, "of the request"),
        (({"prompt": "of the dict"},), {}, "of the dict"),
        ((3,), {"password": "hunter2", "api_key": "k", "wish": "a wish"}, "a wish"),
        ((3, 4), {}, None),
    ],
)
def test_the_prompt_is_named_or_the_first_text(
    args: tuple[object, ...], kwargs: dict[str, object], prompt: str | None
) -> None:
    @traced_pipeline("booking")
    def book(first: object, second: object = None, mode: str = "fast", **more: object) -> None: ...

    with EventRecorder() as events:
        book(*args, **kwargs)
    assert_event(events, "agent.pipeline.started", user_prompt=prompt)


def test_self_is_not_the_prompt_and_content_may_be_off() -> None:
    class Booking(str):
        __slots__ = ()

        @traced_pipeline("booking")
        def book(self, wish: str) -> None: ...

    with EventRecorder() as events:
        Booking("self").book("a wish")
    assert_event(events, "agent.pipeline.started", user_prompt="a wish")
    with EventRecorder(capture_content=False) as events:
        Booking("self").book("a wish")
    assert_event(events, "agent.pipeline.started", user_prompt=None)


@pytest.fixture
def _fresh_zone() -> object:
    time_zone.process_zone.cache_clear()
    yield
    time_zone.process_zone.cache_clear()


@pytest.mark.usefixtures("_fresh_zone")
@pytest.mark.parametrize(
    ("given", "zone"),
    [
        ("America/Mexico_City", "America/Mexico_City"),
        (":/usr/share/zoneinfo/posix/Europe/Berlin", "Europe/Berlin"),
        ("", "UTC"),
        ("../../etc/passwd", None),
    ],
)
def test_the_zone_is_that_of_the_process_unless_an_argument_has_one(
    monkeypatch: pytest.MonkeyPatch, given: str, zone: str | None
) -> None:
    @traced_pipeline("booking")
    def book(request: object = None) -> None: ...

    monkeypatch.setenv("TZ", given)
    with EventRecorder() as events:
        book()
        book(Request("x", "Asia/Tokyo"))
    first, second = events.get_events("agent.pipeline.started")
    assert (first["user_timezone"], second["user_timezone"]) == (zone, "Asia/Tokyo")


@pytest.mark.usefixtures("_fresh_zone")
def test_the_zone_of_the_system_is_read_from_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    localtime, timezone = tmp_path / "localtime", tmp_path / "timezone"
    monkeypatch.setattr(time_zone, "_LOCALTIME", localtime)
    monkeypatch.setattr(time_zone, "_TIMEZONE", timezone)

    def zone() -> str | None:
        time_zone.process_zone.cache_clear()
        return time_zone.process_zone()

    assert zone() == "UTC"
    localtime.write_bytes(b"TZif2")
    assert zone() is None
    timezone.write_text("Europe/Madrid\n")
    assert zone() == "Europe/Madrid"
    real = tmp_path / "zoneinfo" / "Africa" / "Cairo"
    real.parent.mkdir(parents=True)
    real.write_bytes(b"TZif2")
    localtime.unlink()
    localtime.symlink_to(real)
    assert zone() == "Africa/Cairo"
