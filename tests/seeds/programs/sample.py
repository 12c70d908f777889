"""The printed sample of the contract: own sub-spans and span events, no tracer provider set."""

import asyncio
import sys

from opentelemetry import trace

import tracereel
from tracereel import traced_agent

tracer = trace.get_tracer(__name__)


class SharedContext:
    """Context whose ids are not stored on the instance."""

    trace_id = sys.argv[1]


class Agent:
    """Agent with a model call and a validation as sub-spans."""

    @traced_agent("parsing_agent", trace_id=SharedContext.trace_id)
    async def process(self, context: SharedContext) -> dict:
        with tracer.start_as_current_span("parsing_agent.process") as span:
            span.set_attribute("agent.name", "parsing_agent")
            span.set_attribute("agent.version", "1.0.0")
            span.set_attribute("trace_id", context.trace_id)
            with tracer.start_as_current_span("parsing_agent.llm_call") as call:
                call.set_attribute("llm.provider", "qwen")
                call.set_attribute("llm.model", "qwen-2.5")
                call.set_attribute("llm.temperature", 0.3)
                await asyncio.sleep(0.002)
                call.set_attribute("llm.tokens_used", 423)
            with tracer.start_as_current_span("parsing_agent.validation") as validation:
                validation.set_attribute("validation.confidence", 0.92)
                await asyncio.sleep(0.002)
            span.add_event(
                "retry_attempted",
                attributes={"attempt": 2, "error": "timeout", "delay_seconds": 4.0},
            )
            span.add_event(
                "decision_recorded",
                attributes={"decision_type": "entity_extraction", "confidence": 0.92},
            )
            return {"confidence": 0.92}


tracereel.configure()
asyncio.run(Agent().process(SharedContext()))
tracereel.shutdown(20.0)
