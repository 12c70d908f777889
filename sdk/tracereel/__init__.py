"""tracereel: a flight recorder for AI agent pipelines. This module is the public API.

Names are loaded at first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracereel._context import Execution
    from tracereel._context import here as current_execution
    from tracereel._recorder import configure, flush, shutdown
    from tracereel._shipper import FlushResult
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
    "Execution": "_context",
    "FailureRule": "failures",
    "FlushResult": "_shipper",
    "TracereelError": "errors",
    "add_failure_rule": "failures",
    "carry": "propagation",
    "configure": "_recorder",
    "configure_logs": "logs",
    "current_decision": "decisions",
    "current_execution": "_context",
    "extract": "propagation",
    "fallback": "resilience",
    "flush": "_recorder",
    "inject": "propagation",
    "record_decision": "decisions",
    "remove_failure_rule": "failures",
    "replay": "tape.replaying",
    "retry": "resilience",
    "set_tokens_remaining": "metrics",
    "shutdown": "_recorder",
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
"""Public name → what it is called in its home, where that differs."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tracereel' has no attribute {name!r}")
    value = getattr(import_module(f"tracereel.{home}"), _NAMES_THERE.get(name, name))
    globals()[name] = value
    return value
