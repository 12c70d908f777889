"""The samples of contract 1.0.0 run as they are printed there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tests.sdk.conftest import Child
from tests.support.otlp_sink import OtlpSink
from tracereel import current_execution, record_decision, set_tokens_remaining, traced_agent
from tracereel._core import recorder
from tracereel.testing import EventRecorder, MockEventCollector, assert_event


@pytest.fixture
def otlp() -> Iterator[OtlpSink]:
    with OtlpSink() as running:
        yield running


TRACING = """
import asyncio
import logging
import sys
from types import SimpleNamespace

import tracereel
from tracereel import traced_agent

logging.basicConfig()

if "configure" in sys.argv:
    tracereel.configure()
if "opt out" in sys.argv:
    tracereel.configure(set_tracer_provider=False)

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

tracer = trace.get_tracer(__name__)
output = SimpleNamespace(confidence=0.92)


class SharedContext:
    trace_id = "trc_main_abc123"


class Llm:
    async def complete(self, request):
        return SimpleNamespace(usage=SimpleNamespace(total_tokens=423))


class ParsingAgent:
    llm = Llm()

    @traced_agent("parsing_agent")
    async def process_with_tracing(self, context: SharedContext):
        with tracer.start_as_current_span("parsing_agent.process") as span:
            span.set_attribute("agent.name", "parsing_agent")
            span.set_attribute("agent.version", "1.0.0")
            span.set_attribute("trace_id", context.trace_id)

            with tracer.start_as_current_span("parsing_agent.llm_call") as llm_span:
                llm_span.set_attribute("llm.provider", "qwen")
                llm_span.set_attribute("llm.model", "qwen-2.5")
                llm_span.set_attribute("llm.temperature", 0.3)

                response = await self.llm.complete("request")

                llm_span.set_attribute("llm.tokens_used", response.usage.total_tokens)

            with tracer.start_as_current_span("parsing_agent.validation") as val_span:
                val_span.set_attribute("validation.confidence", output.confidence)

            return output


asyncio.run(ParsingAgent().process_with_tracing(SharedContext()))
asyncio.run(ParsingAgent().process_with_tracing(SharedContext()))
print(type(trace.get_tracer_provider()).__name__)
"""
NAMES = ["parsing_agent.llm_call", "parsing_agent.process", "parsing_agent.validation"]


def run(tmp_path: Path, otlp: OtlpSink, *args: str) -> tuple[str, str]:
    script = tmp_path / "sample.py"
    script.write_text(TRACING)
    environ = {name: value for name, value in os.environ.items() if "TRACER_PROVIDER" not in name}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), *args],
        env={**environ, "TRACEREEL_ENDPOINT": otlp.url},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def test_sub_spans_reach_the_run_of_a_program_that_configures(
    tmp_path: Path, otlp: OtlpSink
) -> None:
    provider, errors = run(tmp_path, otlp, "configure")
    assert (provider, errors) == ("DefaultProvider", "")
    assert sorted(otlp.names) == sorted(NAMES * 2)
    by_name = {span.name: span for span in otlp.spans[:3]}
    process, call = by_name["parsing_agent.process"], by_name["parsing_agent.llm_call"]
    assert call.parent_span_id == process.span_id
    assert process.parent_span_id  # the agent, which is recorded by its events
    shown = {each.key: each.value for each in call.attributes}
    assert shown["llm.tokens_used"].int_value == 423


@pytest.mark.parametrize(("how", "lines"), [("as printed", 1), ("opt out", 0)])
def test_lost_sub_spans_are_reported_once_and_nothing_global_is_touched(
    tmp_path: Path, otlp: OtlpSink, how: str, lines: int
) -> None:
    provider, errors = run(tmp_path, otlp, how)
    assert provider == "ProxyTracerProvider"
    assert otlp.names == []
    assert errors.count("call tracereel.configure() at its start") == lines


def test_own_spans_are_made_once_another_processor_listens(child: Child, otlp: OtlpSink) -> None:
    script = """
        import tracereel
        from opentelemetry import trace
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        tracereel.configure(set_tracer_provider=True)
        seen = InMemorySpanExporter()

        @tracereel.traced_agent("a")
        def agent():
            with trace.get_tracer("own").start_as_current_span("inside"):
                pass

        agent()
        trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(seen))
        agent()
        print([span.name for span in seen.get_finished_spans()])
    """
    process = child(script, TRACEREEL_ENDPOINT=otlp.url)
    assert process.communicate(timeout=60)[0].strip() == "['inside', 'invoke_agent a']"
    assert otlp.names == ["inside", "inside"]


def define_metrics(registry: CollectorRegistry) -> dict[str, object]:
    """Define the metrics as printed, in another registry."""
    return {
        "executions": Counter(
            "agent_executions_total",
            "Total de ejecuciones de agentes",
            ["agent_name", "status"],
            registry=registry,
        ),
        "errors": Counter(
            "agent_errors_total",
            "Total de errores de agentes",
            ["agent_name", "error_type", "error_category"],
            registry=registry,
        ),
        "retries": Counter(
            "agent_retries_total",
            "Total de retries de agentes",
            ["agent_name", "retry_reason"],
            registry=registry,
        ),
        "fallbacks": Counter(
            "agent_fallbacks_total",
            "Total de activaciones de fallback",
            ["primary_agent", "fallback_agent"],
            registry=registry,
        ),
        "duration": Histogram(
            "agent_execution_duration_seconds",
            "Duración de ejecución de agentes",
            ["agent_name"],
            buckets=[0.1, 0.5, 1, 2, 5, 10, 30, 60],
            registry=registry,
        ),
        "llm_duration": Histogram(
            "llm_request_duration_seconds",
            "Duración de requests al LLM",
            ["llm_provider"],
            buckets=[0.5, 1, 2, 5, 10, 20, 30],
            registry=registry,
        ),
        "confidence": Gauge(
            "agent_confidence", "Confianza de agentes", ["agent_name"], registry=registry
        ),
        "tokens": Gauge(
            "llm_tokens_remaining", "Tokens restantes en quota", ["llm_provider"], registry=registry
        ),
    }


@traced_agent("parsing_agent")
def parse(confidence: float) -> dict[str, float]:
    current_execution().set(llm_provider="qwen", llm_duration_seconds=0.7)
    if not confidence:
        raise TimeoutError("slow")
    return {"confidence": confidence}


@pytest.mark.parametrize("scraped", [True, False], ids=["scraped", "not scraped"])
def test_metrics_are_defined_by_the_program_after_the_first_call(
    registry: CollectorRegistry, scraped: bool
) -> None:
    agent = {"agent_name": "parsing_agent"}
    with EventRecorder(registry=registry):
        set_tokens_remaining("qwen", 100)
        parse(0.5)
        with pytest.raises(TimeoutError):
            parse(0)
        if scraped:
            generate_latest(registry)
        theirs = define_metrics(registry)
        parse(0.75)
        text = generate_latest(registry).decode()
        families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
        assert len(families) == len(set(families))
        assert "Total de ejecuciones de agentes" in text
        value = registry.get_sample_value
        assert value("agent_executions_total", {**agent, "status": "success"}) == 2
        assert value("agent_confidence", agent) == 0.75
        assert value("llm_tokens_remaining", {"llm_provider": "qwen"}) == 100
        assert value("agent_execution_duration_seconds_count", agent) == 3
        assert (
            value("llm_request_duration_seconds_bucket", {"llm_provider": "qwen", "le": "1.0"}) == 3
        )
        assert value("llm_request_duration_seconds_sum", {"llm_provider": "qwen"}) == pytest.approx(
            2.1
        )
        error = {"error_type": "TimeoutError", "error_category": "transient"}
        assert value("agent_errors_total", {**agent, **error}) == 1
        theirs["executions"].labels("parsing_agent", "success").inc()
        parse(0.25)
        assert value("agent_executions_total", {**agent, "status": "success"}) == 4


@pytest.mark.parametrize("multiprocess", [False, True])
def test_metrics_are_imported_late_into_the_global_registry(
    child: Child, tmp_path: Path, multiprocess: bool
) -> None:
    folder = tmp_path / "values"
    folder.mkdir()
    script = """
        import os
        import tracereel

        @tracereel.traced_agent("a")
        def agent():
            return {"confidence": 0.5}

        agent()

        from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
        from prometheus_client.multiprocess import MultiProcessCollector

        executions = Counter("agent_executions_total", "Total", ["agent_name", "status"])
        confidence = Gauge("agent_confidence", "Confianza", ["agent_name"])
        duration = Histogram(
            "agent_execution_duration_seconds",
            "Duración",
            ["agent_name"],
            buckets=[1, 60],
        )
        REGISTRY.get_sample_value("up")
        agent()
        registry = REGISTRY
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            REGISTRY.get_sample_value("up")
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        labels = {"agent_name": "a", "status": "success"}
        print(registry.get_sample_value("agent_executions_total", labels))
        print(registry.get_sample_value("agent_execution_duration_seconds_count", {"agent_name": "a"}))
    """
    env = {"PROMETHEUS_MULTIPROC_DIR": str(folder)} if multiprocess else {}
    process = child(script, **env)
    assert process.communicate(timeout=60)[0] == "2.0\n2.0\n"


def test_a_metric_of_another_shape_stays_the_programs_own(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    with EventRecorder(registry=registry):
        parse(0.5)
        Counter("agent_executions_total", "Mine.", ["team"], registry=registry).labels("a").inc()
        parse(0.5)
        text = generate_latest(registry).decode()
    assert text.count("# TYPE agent_executions_total") == 1
    assert registry.get_sample_value("agent_executions_total", {"team": "a"}) == 1
    assert "agent_executions_total is already registered with another shape" in caplog.text


PRINTED = """
class ParsingAgent:
    def __init__(self, event_collector=None):
        self.event_collector = event_collector

    @traced_agent("parsing_agent")
    async def process(self, context):
        record_decision("entity_extraction", confidence=0.92)


async def test_agent_events_emitted():
    # Mock event collector
    collector = MockEventCollector()

    # Ejecutar agente
    agent = ParsingAgent(event_collector=collector)
    context = SharedContext()

    await agent.process(context)

    # Verificar eventos
    events = collector.get_events()

    assert any(e['event_type'] == 'agent.execution.started' for e in events)
    assert any(e['event_type'] == 'agent.execution.completed' for e in events)
    assert any(e['event_type'] == 'agent.decision.recorded' for e in events)
"""
TESTS = f"""
from types import SimpleNamespace

import pytest
from tracereel import record_decision, traced_agent
from tracereel._core import recorder
from tracereel.testing import MockEventCollector

SharedContext = SimpleNamespace
{PRINTED}

def test_nothing_of_it_is_left():
    assert recorder._active == "unset"


async def test_the_fixture_works_too(recorded_events):
    await ParsingAgent().process(SharedContext())
    assert len(recorded_events) == 3


async def test_a_collector_that_is_kept_is_stopped():
    pytest.kept = MockEventCollector()
    await ParsingAgent().process(SharedContext())
    assert len(pytest.kept) == 3


test_nothing_of_that_is_left = test_nothing_of_it_is_left
"""


@pytest.mark.parametrize(
    ("plugin", "options"),
    [
        (
            "pytest_asyncio.plugin",
            ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"],
        ),
        ("anyio.pytest_plugin", ["-o", "anyio_mode=auto"]),
    ],
    ids=["pytest-asyncio", "anyio"],
)
def test_the_test_of_events_runs_as_printed(
    tmp_path: Path, plugin: str, options: list[str]
) -> None:
    (tmp_path / "test_agent_events.py").write_text(TESTS)
    fixture = "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    (tmp_path / "conftest.py").write_text(f"import pytest\n{fixture}")
    plugins = ["-p", plugin, "-p", "tracereel._pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *plugins, *options, str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


class Agent:
    def __init__(self, name: str, event_collector: object = None) -> None:
        self.event_collector = event_collector
        self.name = name

    @traced_agent("method_agent")
    def process(self) -> None:
        inner()
        record_decision(self.name)


@traced_agent("inner_agent")
def inner(event_collector: object = None) -> None: ...


def test_each_collector_has_the_events_of_its_agents() -> None:
    first, second = MockEventCollector(), MockEventCollector()
    Agent("of the first", first).process()
    Agent("of the second", event_collector=second).process()
    Agent("of nobody").process()
    inner(second)
    assert len(first) == 5
    assert_event(first, "agent.execution.completed", agent_name="inner_agent")
    assert_event(first, "agent.decision.recorded", decision_type="of the first")
    assert len(second) == 7
    assert_event(second, "agent.decision.recorded", decision_type="of the second")
    first.stop()
    inner()
    second.stop()
    assert (len(first), len(second)) == (5, 7)


def test_a_collector_that_no_agent_carries_has_all_events() -> None:
    before = recorder._active
    collector = MockEventCollector()
    Agent("of nobody").process()
    assert len(collector) == 5
    collector.clear()
    assert collector.get_events() == []
    del collector
    assert recorder._active is before


def test_an_attribute_of_the_programs_own_class_is_left_alone() -> None:
    calls: list[object] = []
    collector = MockEventCollector()
    Agent("of another", event_collector=calls.append).process()
    assert calls == []
    assert len(collector) == 5
