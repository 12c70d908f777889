"""A model that answers from a script: same seed, same answers, delays and failures."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracereel.tape import boundary

PROVIDER: Final = "qwen"
MODEL: Final = "qwen-2.5"
TIMEOUT_SECONDS: Final = 0.3
"""How long the script pretends to wait before it gives up."""

_USD_PER_PROMPT_TOKEN: Final = 0.8e-6
_USD_PER_COMPLETION_TOKEN: Final = 1.6e-6


Answer = tuple[Mapping[str, Any], float, str]
"""Content, confidence and reasoning."""


class LLMTimeoutError(TimeoutError):
    """The model did not answer in time."""

    code = "LLM_TIMEOUT"


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of the model and what it used."""

    content: Mapping[str, Any]
    confidence: float
    reasoning: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def cost_usd(self) -> float:
        cost = self.prompt_tokens * _USD_PER_PROMPT_TOKEN
        return round(cost + self.completion_tokens * _USD_PER_COMPLETION_TOKEN, 8)


@dataclass(frozen=True, slots=True)
class Script:
    """What the model will say, task by task, and the task at which it falls silent, and how often."""

    answers: Mapping[str, Answer]
    """By task."""
    silent_at: str | None = None
    silences: int = 1_000
    """So many times; then it answers."""


@dataclass(slots=True)
class ScriptedModel:
    """Plays a script; `sleep` is how it passes the time a real model would take."""

    script: Script
    rng: random.Random
    sleep: Callable[[float], None]
    pace: float = 1.0
    calls: list[str] = field(default_factory=list)

    def complete(self, task: str, prompt: str) -> Completion:
        """Answer one task; a replay serves the recorded answer instead, as it would a real model's.

        Raises:
            LLMTimeoutError: the script says that this call gets no answer.
        """
        asked = {"task": task, "prompt": prompt}
        answer: Completion = boundary(
            MODEL, "llm", asked, lambda **other: self._say(**{**asked, **other})
        )
        return answer

    def _say(self, task: str, prompt: str) -> Completion:
        self.calls.append(task)
        # Drawn before the silence, so that a failing run uses up the same random numbers.
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
