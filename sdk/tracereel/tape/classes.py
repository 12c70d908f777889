"""Classes by name: which class a tape means, and whether this process may make objects of it.

A tape is data, perhaps of somebody else's making. A name in it never imports a module: the class must be
in a module that the program has loaded, or that it has declared with `declare`.
"""

import importlib
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

_declared: Final[set[str]] = set()
_STARTED: Final = ("__main__", "__mp_main__")
"""What Python calls the module that it was started with; every program has one."""


def started_as() -> str:
    """The name that other programs import the started module by; `__main__` where there is none."""
    module = sys.modules.get("__main__")
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    return _stem(str(getattr(module, "__file__", None) or ""))


@lru_cache(maxsize=8)
def _stem(file: str) -> str:
    path = Path(file)
    # Without the suffix it is a command that a package has installed, and named like that.
    return path.stem if path.suffix == ".py" and path.stem.isidentifier() else "__main__"


@lru_cache(maxsize=1)
def folder_of_program() -> str:
    """Where the started file is, seen from the working directory; empty if that is there, or elsewhere."""
    module = sys.modules.get("__main__")
    file = getattr(module, "__file__", None)
    if getattr(module, "__spec__", None) is not None or _stem(str(file or "")) == "__main__":
        return ""
    try:
        found = Path(str(file)).resolve().parent.relative_to(Path.cwd())
    except (OSError, ValueError):
        return ""
    return "" if found == Path() else found.as_posix()


def importable(module_name: str) -> str:
    """The name of a module for other programs to import it by."""
    return started_as() if module_name in _STARTED else module_name


def loaded(module_name: str) -> Any:
    """A module that this process has loaded, also the one that it was started with; else null."""
    if module_name in _STARTED or module_name == started_as():
        return sys.modules.get("__main__")
    return sys.modules.get(module_name)


def path_of(kind: type) -> str:
    """`module:qualified.name` of a class, read without running code of its metaclass."""
    try:
        module = type.__getattribute__(kind, "__module__")
        name = type.__getattribute__(kind, "__qualname__")
    except AttributeError:
        return "builtins:object"
    return f"{importable(module) if module in _STARTED else module}:{name}"


def declare(*modules: str) -> None:
    """Say that classes of these modules may be loaded when a tape names them."""
    _declared.update(modules)


def resolve(path: str, base: type | None = None) -> type | None:
    """The class of that path, if this process may use it and it derives from `base`; else null."""
    module_name, _, qualname = path.partition(":")
    module = loaded(module_name)
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
    module = importable(getattr(inner, "__module__", None) or "?")
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{module}:{name}"
