"""Lookup of classes that a tape names.

A tape is untrusted data, so a name in it never imports a module. The class must be in a module
that the program has loaded, or that it has declared with `declare`.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MemberDescriptorType, ModuleType
from typing import Any, Final

_HEAP_TYPE: Final = 1 << 9
"""Type flag of classes that are created at run time, not by the interpreter."""
_declared: Final[set[str]] = set()
_HOOKS: Final = frozenset(
    {"__getattr__", "__getattribute__", "__call__", "__instancecheck__", "__subclasscheck__"}
)
_STDLIB: Final = str(Path(os.__file__).parent)
_STARTED: Final = ("__main__", "__mp_main__")
"""Names of the module that Python was started with; every program has one."""


def started_as() -> str:
    """Return the import name of the started module, or `__main__` if it has none."""
    module = sys.modules.get("__main__")
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    return _stem(str(getattr(module, "__file__", None) or ""))


@lru_cache(maxsize=8)
def _stem(file: str) -> str:
    path = Path(file)
    # A file without suffix is an installed command, which cannot be imported by that name.
    return path.stem if path.suffix == ".py" and path.stem.isidentifier() else "__main__"


@lru_cache(maxsize=1)
def folder_of_program() -> str:
    """Return the started file's folder below the working directory, or an empty string."""
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
    """Return the name by which other programs can import a module."""
    return started_as() if module_name in _STARTED else module_name


def loaded(module_name: str) -> Any:
    """Return a loaded module, including the started one, or `None`."""
    if module_name in _STARTED or module_name == started_as():
        return sys.modules.get("__main__")
    return sys.modules.get(module_name)


def path_of(kind: type) -> str:
    """Return `module:qualified.name` of a class without running code of its metaclass."""
    try:
        module = type.__getattribute__(kind, "__module__")
        name = type.__getattribute__(kind, "__qualname__")
    except AttributeError:
        return "builtins:object"
    return f"{importable(module) if module in _STARTED else module}:{name}"


def declare(*modules: str) -> None:
    """Allow tapes to load classes of these modules."""
    _declared.update(modules)


def resolve(path: str, base: type | None = None) -> type | None:
    """Return an allowed class that derives from `base`, by its path, or `None`."""
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
        if part == "<locals>" or not issubclass(type(found), (type, ModuleType)):
            return None
        found = dict_of(found).get(part)
    if not issubclass(type(found), type):
        return None
    bases: tuple[type, ...] = type.__getattribute__(found, "__mro__")
    if base is not None and base not in bases:
        return None
    # Objects are made without `__init__`, so their finalizer must not run code of the program.
    if any("__del__" in dict_of(each) for each in bases):
        return None
    # A metaclass of the program would see each look at the class.
    if any(_looks(each) for each in type.__getattribute__(type(found), "__mro__")):
        return None
    # The name may be bound to another class by now, which is not the one that was recorded.
    return found if path_of(found) == path else None


def _looks(metaclass: type) -> bool:
    """Return whether a metaclass of the program runs code when its classes are used."""
    module = type.__getattribute__(metaclass, "__module__").partition(".")[0]
    if module in ("builtins", "abc", "enum", "typing", "pydantic"):
        return False
    return not _HOOKS.isdisjoint(dict_of(metaclass))


def dict_of(owner: "type | ModuleType") -> Mapping[str, Any]:
    """Return the `__dict__` of a class or module without running its code."""
    if issubclass(type(owner), type):
        held: Mapping[str, Any] = type.__dict__["__dict__"].__get__(owner)
        return held
    found: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    return found


def attributes_of(value: object) -> dict[str, Any] | None:
    """Return the attributes of an object of the program's own classes, without running its code.

    Objects of libraries hold times, counters and connections, so they have none, nor have those
    of a built-in class such as `dict`, whose content is no attribute.
    """
    kind = type(value)
    if any(not each.__flags__ & _HEAP_TYPE for each in type.__getattribute__(kind, "__mro__")[:-1]):
        return None
    module = sys.modules.get(type.__getattribute__(kind, "__module__"))
    file = dict_of(module).get("__file__") if isinstance(module, ModuleType) else None
    if not isinstance(file, str) or _is_library(file):
        return None
    found: dict[str, Any] = {}
    for each in type.__getattribute__(kind, "__mro__"):
        for name, member in dict_of(each).items():
            if type(member) is MemberDescriptorType:
                try:
                    found[name] = member.__get__(value)
                except AttributeError:
                    continue
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        held = {}
    found |= (
        {name: item for name, item in held.items() if type(name) is str}
        if type(held) is dict
        else {}
    )
    return {name: found[name] for name in sorted(found)} or None


@lru_cache(maxsize=1024)
def _is_library(file: str) -> bool:
    return "site-packages" in file or file.startswith(_STDLIB)


def defines(kind: type, name: str) -> type | None:
    """Return the class in the MRO that defines a name."""
    return next((each for each in kind.__mro__ if name in dict_of(each)), None)


@lru_cache(maxsize=4096)
def function_path(function: Any) -> str:
    """Return `module:qualified.name` of a function or bound method."""
    inner = getattr(function, "__func__", function)
    module = importable(getattr(inner, "__module__", None) or "?")
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{module}:{name}"
