"""Tokens and cost that were recorded inside of a boundary call.

A served call does not run, so neither do the model calls in it. Its end on the tape keeps what they used,
and serving it records that again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypedDict

from tracereel._core import context
from tracereel._core import recorder as _recorder
from tracereel._core.executions.arguments import NO_ARGUMENTS
from tracereel._core.executions.calls import LlmSpec
from tracereel._runtime import guard

USAGE: Final = (
    *("llm_tokens_used", "llm_prompt_tokens", "llm_completion_tokens"),
    *("llm_cached_tokens", "llm_cache_creation_tokens", "llm_reasoning_tokens", "llm_cost_usd"),
)
"""Event fields of tokens and cost."""
_ADDED: Final = ("prompt_tokens", "completion_tokens", "total_tokens", "cost_usd")
"""Arguments of `Execution.add_usage`."""
_NAMES: Final = ("operation", "llm_provider", "llm_model", "llm_model_requested")
MAX_USED: Final = 256
"""Entries of one call; the usage of further model calls is added to the last one of the same model."""

Way = Literal["called", "added", "set"]
"""By a traced model call, by `Execution.add_usage`, or by `Execution.set`."""


class InnerUsage(TypedDict, total=False):
    """Usage of one model call, or figures that the program added or set."""

    way: Way
    operation: str
    llm_provider: str
    llm_model: str
    llm_model_requested: str
    usage: dict[str, int | float]


def keep(found: list[InnerUsage], way: Way, fields: Mapping[str, Any]) -> None:
    """Add the usage in these fields, if there is any."""
    names = _ADDED if way == "added" else USAGE
    usage = {name: fields[name] for name in names if fields.get(name) is not None}
    if not usage:
        return
    entry: InnerUsage = {"way": way, "usage": usage}
    for name in _NAMES:
        if isinstance(value := fields.get(name), str):
            entry[name] = value
    if len(found) < MAX_USED:
        found.append(entry)
        return
    alike = [each for each in found if _origin(each) == _origin(entry)]
    sums = (alike or found)[-1]["usage"]
    for name, count in usage.items():
        sums[name] = count if way == "set" else sums.get(name, 0) + count


def repeat(execution: "context.Execution", kept: Sequence[InnerUsage]) -> None:
    """Record kept usage again, inside of the execution of the served call."""
    for each in kept[:MAX_USED]:
        with guard.Guard("tape"):
            way, usage = each.get("way"), each.get("usage", {})
            if way == "called":
                _called(each)
            elif way == "added":
                execution.add_usage(**{name: usage.get(name) for name in _ADDED})  # type: ignore[arg-type]
            else:
                execution.agent.set(**_fields(usage))


def _called(each: InnerUsage) -> None:
    """Record a model call with its model and its usage, under the current execution."""
    recorder = _recorder.active()
    if recorder is None:
        return
    model = each.get("llm_model", "unknown")
    spec = LlmSpec(
        each.get("llm_model_requested", model),
        provider=each.get("llm_provider"),
        operation=each.get("operation"),
        temperature=None,
        max_tokens=None,
        ids={},
        inputs=None,
    )
    scope = spec.open(recorder, NO_ARGUMENTS)
    scope.execution.set(llm_model=model, **_fields(each.get("usage", {})))
    scope.complete(None)


def _fields(usage: Mapping[str, int | float]) -> Any:
    return {name: usage[name] for name in USAGE if name in usage}


def _origin(each: InnerUsage) -> tuple[Any, ...]:
    return (each["way"], *(each.get(name) for name in _NAMES))
