"""Clients of platforms: Langfuse, Laminar, LangSmith, MLflow, OpenLIT, LiteLLM."""

import base64

from tests.clients.programs import scene
from tests.clients.programs.instrumentations import langchain


def langfuse(server):
    """Langfuse, unchanged: it posts to its own path with Basic auth."""
    scene.environ(LANGFUSE_PUBLIC_KEY="pk", LANGFUSE_SECRET_KEY="sk")
    scene.environ(LANGFUSE_BASE_URL=server.url)
    from langfuse import get_client, observe, propagate_attributes
    from langfuse.openai import openai

    client = openai.OpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)
    weather = observe(scene.get_weather, as_type="tool")

    @observe(as_type="agent", name=scene.AGENT)
    def guide(question):
        with propagate_attributes(session_id=scene.SESSION, user_id=scene.USER):
            scene.play_chat(server, client, tool=weather)

    guide(scene.QUESTION)
    get_client().flush()


def laminar(server):
    """Laminar over HTTP."""
    from lmnr import Laminar, observe

    Laminar.initialize(
        project_api_key="x",
        base_url="http://127.0.0.1",
        http_port=server.server_port,
        force_http=True,
    )
    weather = observe(span_type="TOOL", name="get_weather")(scene.get_weather)

    @observe(name=scene.AGENT, session_id=scene.SESSION, user_id=scene.USER)
    def guide(question):
        scene.play_chat(server, tool=weather)

    guide(scene.QUESTION)
    Laminar.flush()


def langsmith(server):
    """LangSmith's OpenTelemetry mode with LangChain."""
    scene.environ(
        LANGSMITH_OTEL_ENABLED="true",
        LANGSMITH_OTEL_ONLY="true",
        LANGSMITH_TRACING="true",
        LANGSMITH_API_KEY="x",
        LANGSMITH_ENDPOINT=server.url,
    )
    scene.Provider(server)
    langchain(server)
    from langchain_core.tracers.langchain import wait_for_all_tracers

    wait_for_all_tracers()


def mlflow(server):
    """MLflow's autologging of OpenAI's client, exported over OTLP."""
    scene.environ(
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{server.url}/v1/traces",
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="http/protobuf",
    )
    _mlflow(server)


def mlflow_genai(server):
    """MLflow with the names of OpenTelemetry."""
    scene.environ(
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{server.url}/v1/traces",
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="http/protobuf",
        MLFLOW_ENABLE_OTEL_GENAI_SEMCONV="true",
    )
    _mlflow(server)


def _mlflow(server):
    import mlflow

    mlflow.openai.autolog()
    weather = mlflow.trace(scene.get_weather, span_type="TOOL")

    @mlflow.trace(span_type="AGENT", name=scene.AGENT)
    def guide(question):
        mlflow.update_current_trace(
            metadata={"mlflow.trace.session": scene.SESSION, "mlflow.trace.user": scene.USER}
        )
        scene.play_chat(server, tool=weather)

    guide(scene.QUESTION)
    from mlflow.tracing import provider

    for processor in provider.provider.get()._active_span_processor._span_processors:
        processor.force_flush()


def openlit(server):
    """OpenLIT."""
    scene.environ(OTEL_EXPORTER_OTLP_ENDPOINT=server.url)
    import openlit

    openlit.init(application_name="recorder", disable_batch=True, disable_metrics=True)
    with openlit.start_trace(name="weather"):
        scene.play_chat(server)


def litellm_otel(server):
    """LiteLLM's callback "otel"."""
    scene.environ(
        OTEL_EXPORTER="otlp_http",
        OTEL_ENDPOINT=f"{server.url}/v1/traces",
        OTEL_EXPORTER_OTLP_ENDPOINT=server.url,
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )
    import litellm

    litellm.callbacks = ["otel"]
    _litellm(server)
    _flush()


def litellm_openinference(server):
    """OpenInference's instrumentation of LiteLLM."""
    from openinference.instrumentation import using_attributes

    scene.Provider(server).instrument("openinference.instrumentation.litellm:LiteLLMInstrumentor")
    with using_attributes(session_id=scene.SESSION, user_id=scene.USER):
        _litellm(server)


def _litellm(server):
    import litellm

    options = {"api_base": f"{server.url}/v1", "api_key": "x", "num_retries": 0}
    options |= {"user": scene.USER, "metadata": {"session_id": scene.SESSION}}
    model = f"openai/{scene.MODEL}"
    litellm.completion(model=model, messages=scene.ASKED, tools=scene.CHAT_TOOLS, **options)
    chunks = litellm.completion(
        model=model,
        messages=scene.ASKED,
        stream=True,
        stream_options={"include_usage": True},
        **options,
    )
    for _ in chunks:
        pass
    scene.fail(
        lambda: litellm.completion(model=f"openai/{scene.BROKEN}", messages=scene.ASKED, **options)
    )


def _flush():
    import time

    from opentelemetry import trace

    time.sleep(2)  # LiteLLM reports in a thread of its own that has no end to wait for
    provider = trace.get_tracer_provider()
    if hasattr(provider, "force_flush"):
        provider.force_flush()


def basic(public, secret):
    """Return a value of `Authorization`."""
    return "Basic " + base64.b64encode(f"{public}:{secret}".encode()).decode()


PROGRAMS = {
    "langfuse": langfuse,
    "laminar": laminar,
    "langsmith": langsmith,
    "mlflow": mlflow,
    "mlflow-genai": mlflow_genai,
    "openlit": openlit,
    "litellm-otel": litellm_otel,
    "openinference-litellm": litellm_openinference,
}
