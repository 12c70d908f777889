"""tracereel: a flight recorder for AI agent pipelines. This module is the public API.

Names are loaded at first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracereel._context import Execution, current_execution
    from tracereel._recorder import configure, flush, shutdown
    from tracereel._shipper import FlushResult
    from tracereel.decisions import record_decision
    from tracereel.decorators import traced_agent, traced_pipeline
    from tracereel.errors import ConfigurationError, TracereelError
    from tracereel.metrics import set_tokens_remaining

__all__ = [
    "ConfigurationError",
    "Execution",
    "FlushResult",
    "TracereelError",
    "configure",
    "current_execution",
    "flush",
    "record_decision",
    "set_tokens_remaining",
    "shutdown",
    "traced_agent",
    "traced_pipeline",
]

_HOMES: Final = {
    "ConfigurationError": "errors",
    "Execution": "_context",
    "FlushResult": "_shipper",
    "TracereelError": "errors",
    "configure": "_recorder",
    "current_execution": "_context",
    "flush": "_recorder",
    "record_decision": "decisions",
    "set_tokens_remaining": "metrics",
    "shutdown": "_recorder",
    "traced_agent": "decorators",
    "traced_pipeline": "decorators",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tracereel' has no attribute {name!r}")
    value = getattr(import_module(f"tracereel.{home}"), name)
    globals()[name] = value
    return value
