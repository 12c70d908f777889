"""A program that declares everything the contract asks for, as in the printed examples."""

import asyncio
from dataclasses import dataclass

from opentelemetry.sdk.trace import TracerProvider

from tracereel import (
    current_execution,
    record_decision,
    retry,
    traced_agent,
    traced_llm,
    traced_pipeline,
    traced_step,
)
from tracereel.resilience import exponential_backoff, fallback, fixed_delay

TRACE_ID = "trc_declared"
PROMPT = "an appointment tomorrow at ten"
AGENTS = ["parsing_agent", "temporal_agent", "geo_agent"]


class LLMTimeoutError(TimeoutError):
    """The model did not answer in time."""


@dataclass
class SharedContext:
    """Context of a request, as the agents pass it on."""

    trace_id: str = TRACE_ID
    request_id: str = "req_declared"
    session_id: str = "ses_declared"
    prompt: str = PROMPT


@dataclass
class ParsingOutput:
    """Result of an agent."""

    entities: dict[str, str]
    confidence: float


class ParsingAgent:
    """Agent with sub-spans of its own."""

    def __init__(self, provider: TracerProvider) -> None:
        self.tracer = provider.get_tracer(__name__)

    @traced_agent(
        "parsing_agent",
        version="1.0.0",
        llm_provider="qwen",
        llm_model="qwen-2.5",
        temperature=0.3,
        max_tokens=500,
    )
    async def process(self, context: SharedContext) -> ParsingOutput:
        with self.tracer.start_as_current_span("parsing_agent.process") as span:
            span.set_attribute("agent.name", "parsing_agent")
            with self.tracer.start_as_current_span("parsing_agent.llm_call") as call:
                call.set_attribute("llm.provider", "qwen")
                await complete(context.prompt)
            with self.tracer.start_as_current_span("parsing_agent.validation") as validation:
                validation.set_attribute("validation.confidence", 0.92)
        record_decision(
            "entity_extraction",
            category="extraction",
            reasoning="a date and a time are named",
            confidence=0.92,
            input_data={"prompt": context.prompt},
            output_data={"date": "tomorrow"},
            duration_ms=150,
            was_cached=True,
            cache_hit_key="prompt:1",
        )
        current_execution().set(
            confidence=0.92, decision_type="entity_extraction", reasoning="clear date"
        )
        return ParsingOutput({"date": "tomorrow"}, 0.92)


@traced_llm("qwen-2.5", provider="qwen", temperature=0.3, max_tokens=500)
async def complete(prompt: str) -> str:
    current_execution().set(
        llm_tokens_used=423,
        llm_prompt_tokens=287,
        llm_completion_tokens=136,
        llm_cost_usd=0.00042,
    )
    return f"answer to {prompt}"


class Answers:
    """Model that times out a number of times before it answers."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def __call__(self) -> str:
        self.failures -= 1
        if self.failures >= 0:
            raise LLMTimeoutError("timeout after 30s")
        return "10:00"


def temporal_agent(failures: int):
    """Return an agent that is retried inside of its execution."""
    answers = Answers(failures)

    @traced_agent("temporal_agent", version="1.0.0")
    @retry(3, on=LLMTimeoutError, strategy=exponential_backoff(base=0.001))
    def resolve(prompt: str) -> str:
        current_execution().set(partial_output={"date": "tomorrow"})
        with traced_step("llm_call"):
            return answers()

    return resolve


@traced_agent("history_agent", version="1.0.0")
def last_place(prompt: str) -> str:
    current_execution().set(confidence=0.4)
    return "the usual place"


@fallback(to=last_place, min_confidence=0.6)
@traced_agent("geo_agent", version="1.0.0")
def unsure_place(prompt: str) -> str:
    current_execution().set(confidence=0.5)
    return "somewhere"


@traced_agent("backup_parser", version="1.0.0")
def backup_fails(prompt: str) -> str:
    raise LLMTimeoutError("the backup is away too")


@traced_agent("guarded_agent", version="1.0.0")
@fallback(to=backup_fails)
@retry(2, strategy=fixed_delay(0))
def guarded(prompt: str) -> str:
    with traced_step("llm_call"):
        raise LLMTimeoutError("timeout after 30s")


@traced_agent("sub_agent", version="1.0.0", trace_id="trc_declared_sub")
def sub_agent(prompt: str) -> str:
    return prompt


@traced_pipeline("appointment_creation", agents=AGENTS)
async def create_appointment(
    context: SharedContext,
    provider: TracerProvider,
    user_prompt: str,
    user_timezone: str,
    user_id: str,
) -> str:
    await ParsingAgent(provider).process(context)
    temporal_agent(1)(user_prompt)
    sub_agent(user_prompt)
    for broken in (temporal_agent(9), guarded):
        try:
            broken(user_prompt)
        except LLMTimeoutError:
            pass
    unsure_place(user_prompt)
    current_execution().set(outcome="appointment_created", confidence=0.89)
    return "appointment at 10:00"


def main(provider: TracerProvider) -> None:
    """Run the pipeline once."""
    asyncio.run(
        create_appointment(SharedContext(), provider, PROMPT, "America/Mexico_City", "user_12345")
    )
