"""Scripted model with reproducible responses, delays and failures for a seed."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import tracereel
from tracereel.tape import boundary

PROVIDER: Final = "qwen"
MODEL: Final = "qwen-2.5"
TEMPERATURE: Final = 0.3
MAX_TOKENS: Final = 500
TIMEOUT_SECONDS: Final = 0.3
"""Simulated timeout in seconds."""

_USD_PER_PROMPT_TOKEN: Final = 0.8e-6
_USD_PER_COMPLETION_TOKEN: Final = 1.6e-6


Answer = tuple[Mapping[str, Any], float, str]
"""Content, confidence and reasoning."""


class LLMTimeoutError(TimeoutError):
    """The model did not respond in time."""

    code = "LLM_TIMEOUT"


@dataclass(frozen=True, slots=True)
class Completion:
    """One response of the model and its usage."""

    content: Mapping[str, Any]
    confidence: float
    reasoning: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float

    @property
    def total_tokens(self) -> int:
        """Tokens of prompt and completion."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def cost_usd(self) -> float:
        """Simulated price in US dollars."""
        cost = self.prompt_tokens * _USD_PER_PROMPT_TOKEN
        return round(cost + self.completion_tokens * _USD_PER_COMPLETION_TOKEN, 8)


@dataclass(frozen=True, slots=True)
class Script:
    """Responses by task, and what goes wrong before them."""

    answers: Mapping[str, Answer]
    troubles: Mapping[str, tuple[Answer | None, ...]] = field(default_factory=dict)
    """Outcomes of the first calls of a task: a wrong response, or `None` for a timeout."""


@dataclass(slots=True)
class ScriptedModel:
    """Plays a script; `sleep` simulates the latency of a real model."""

    script: Script
    rng: random.Random
    sleep: Callable[[float], None]
    pace: float = 1.0
    calls: list[str] = field(default_factory=list)

    def complete(self, task: str, instructions: str, prompt: str) -> Completion:
        """Complete one task; a replay serves the recorded response instead.

        Raises:
            LLMTimeoutError: the script specifies a timeout for this call.
        """
        asked = {"task": task, "prompt": prompt}
        messages = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": prompt},
        ]
        with tracereel.traced_llm(
            MODEL,
            provider=PROVIDER,
            temperature=TEMPERATURE,
            max_tokens=MAX_TOKENS,
            inputs={"messages": messages},
        ) as call:
            answer: Completion = boundary(
                MODEL, "llm", asked, lambda **other: self._say(**{**asked, **other})
            )
            said = json.dumps(answer.content, ensure_ascii=False)
            call.set(
                llm_prompt_tokens=answer.prompt_tokens,
                llm_completion_tokens=answer.completion_tokens,
                llm_cost_usd=answer.cost_usd,
                finish_reason="stop",
                output_messages=[{"role": "assistant", "content": said}],
            )
        return answer

    def _say(self, task: str, prompt: str) -> Completion:
        number = self.calls.count(task)
        self.calls.append(task)
        # Draw before a timeout, so that a failing run consumes the same random numbers.
        latency = self.rng.uniform(0.02, 0.09) * self.pace
        overhead = self.rng.randint(180, 260)
        troubles = self.script.troubles.get(task, ())
        outcome = troubles[number] if number < len(troubles) else self.script.answers[task]
        if outcome is None:
            self.sleep(TIMEOUT_SECONDS * self.pace)
            raise LLMTimeoutError(f"no answer from {MODEL} in time")
        self.sleep(latency)
        content, confidence, reasoning = outcome
        return Completion(
            content=content,
            confidence=confidence,
            reasoning=reasoning,
            prompt_tokens=overhead + len(prompt) // 3,
            completion_tokens=24 + len(str(content)) // 3,
            seconds=latency,
        )
