"""Classes by name: which class a tape means, and whether this process may make objects of it.

A tape is data, perhaps of somebody else's making. A name in it never imports a module: the class must be
in a module that the program has loaded, or that it has declared with `declare`.
"""

import importlib
import sys
from typing import Any, Final

_declared: Final[set[str]] = set()


def path_of(kind: type) -> str:
    """`module:qualified.name` of a class, read without running code of its metaclass."""
    try:
        module = type.__getattribute__(kind, "__module__")
        name = type.__getattribute__(kind, "__qualname__")
    except AttributeError:
        return "builtins:object"
    return f"{module}:{name}"


def declare(*modules: str) -> None:
    """Say that classes of these modules may be loaded when a tape names them."""
    _declared.update(modules)


def resolve(path: str, base: type | None = None) -> type | None:
    """The class of that path, if this process may use it and it derives from `base`; else null."""
    module_name, _, qualname = path.partition(":")
    module = sys.modules.get(module_name)
    if module is None:
        if module_name not in _declared:
            return None
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            return None
    found: Any = module
    for part in qualname.split("."):
        if part == "<locals>":
            return None
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
        if found is None:
            return None
    if not isinstance(found, type) or (base is not None and not issubclass(found, base)):
        return None
    # A name may have been bound to another class since: what is made must be what was recorded.
    return found if path_of(found) == path else None


def function_path(function: Any) -> str:
    """`module:qualified.name` of a function, or of what it wraps."""
    inner = getattr(function, "__func__", function)
    module = getattr(inner, "__module__", None) or "?"
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{module}:{name}"
