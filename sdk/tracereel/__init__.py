"""Public API of tracereel, a flight recorder for AI agent pipelines.

Names are imported lazily, on first use, so that importing the package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracereel._core.context import Execution
    from tracereel._core.context import here as current_execution
    from tracereel._core.recorder import configure, flush, shutdown
    from tracereel._export.shipper import FlushResult
    from tracereel.decisions import current_decision, record_decision, traced_decision
    from tracereel.decorators import (
        traced_agent,
        traced_llm,
        traced_pipeline,
        traced_retrieval,
        traced_step,
        traced_tool,
    )
    from tracereel.errors import ConfigurationError, TracereelError
    from tracereel.failures import FailureRule, add_failure_rule, remove_failure_rule
    from tracereel.logs import configure_logs
    from tracereel.metrics import set_tokens_remaining
    from tracereel.metrics_server import start_metrics_server
    from tracereel.propagation import carry, extract, inject, subprocess_environ
    from tracereel.resilience import fallback, retry
    from tracereel.tape.replaying import replay

__all__ = [
    "ConfigurationError",
    "Execution",
    "FailureRule",
    "FlushResult",
    "TracereelError",
    "add_failure_rule",
    "carry",
    "configure",
    "configure_logs",
    "current_decision",
    "current_execution",
    "extract",
    "fallback",
    "flush",
    "inject",
    "record_decision",
    "remove_failure_rule",
    "replay",
    "retry",
    "set_tokens_remaining",
    "shutdown",
    "start_metrics_server",
    "subprocess_environ",
    "traced_agent",
    "traced_decision",
    "traced_llm",
    "traced_pipeline",
    "traced_retrieval",
    "traced_step",
    "traced_tool",
]

_HOMES: Final = {
    "ConfigurationError": "errors",
    "Execution": "_core.context",
    "FailureRule": "failures",
    "FlushResult": "_export.shipper",
    "TracereelError": "errors",
    "add_failure_rule": "failures",
    "carry": "propagation",
    "configure": "_core.recorder",
    "configure_logs": "logs",
    "current_decision": "decisions",
    "current_execution": "_core.context",
    "extract": "propagation",
    "fallback": "resilience",
    "flush": "_core.recorder",
    "inject": "propagation",
    "record_decision": "decisions",
    "remove_failure_rule": "failures",
    "replay": "tape.replaying",
    "retry": "resilience",
    "set_tokens_remaining": "metrics",
    "shutdown": "_core.recorder",
    "start_metrics_server": "metrics_server",
    "subprocess_environ": "propagation",
    "traced_agent": "decorators",
    "traced_decision": "decisions",
    "traced_llm": "decorators",
    "traced_pipeline": "decorators",
    "traced_retrieval": "decorators",
    "traced_step": "decorators",
    "traced_tool": "decorators",
}
_NAMES_THERE: Final = {"current_execution": "here"}
"""Public names that differ from the name in their module."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tracereel' has no attribute {name!r}")
    value = getattr(import_module(f"tracereel.{home}"), _NAMES_THERE.get(name, name))
    globals()[name] = value
    return value
