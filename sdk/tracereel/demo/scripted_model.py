"""Scripted model with reproducible responses, delays and failures for a seed."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracereel.tape import boundary

PROVIDER: Final = "qwen"
MODEL: Final = "qwen-2.5"
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
    """Responses by task, and the task that times out."""

    answers: Mapping[str, Answer]
    """Responses by task."""
    silent_at: str | None = None
    silences: int = 1_000
    """Number of timeouts before it responds."""


@dataclass(slots=True)
class ScriptedModel:
    """Plays a script; `sleep` simulates the latency of a real model."""

    script: Script
    rng: random.Random
    sleep: Callable[[float], None]
    pace: float = 1.0
    calls: list[str] = field(default_factory=list)

    def complete(self, task: str, prompt: str) -> Completion:
        """Complete one task; a replay serves the recorded response instead.

        Raises:
            LLMTimeoutError: the script specifies a timeout for this call.
        """
        asked = {"task": task, "prompt": prompt}
        answer: Completion = boundary(
            MODEL, "llm", asked, lambda **other: self._say(**{**asked, **other})
        )
        return answer

    def _say(self, task: str, prompt: str) -> Completion:
        self.calls.append(task)
        # Draw before a timeout, so that a failing run consumes the same random numbers.
        latency = self.rng.uniform(0.02, 0.09) * self.pace
        overhead = self.rng.randint(180, 260)
        if task == self.script.silent_at and self.calls.count(task) <= self.script.silences:
            self.sleep(TIMEOUT_SECONDS * self.pace)
            raise LLMTimeoutError(f"no answer from {MODEL} in time")
        self.sleep(latency)
        content, confidence, reasoning = self.script.answers[task]
        return Completion(
            content=content,
            confidence=confidence,
            reasoning=reasoning,
            prompt_tokens=overhead + len(prompt) // 3,
            completion_tokens=24 + len(str(content)) // 3,
            seconds=latency,
        )
