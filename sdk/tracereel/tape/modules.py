"""Modules that a tape may import: those of the user's project, found without importing them.

A tape is untrusted data. A module that it names is imported only if its file, and that of each
parent package, is below the working directory and not in an environment, if it is part of
tracereel's demo, or if `TRACEREEL_REPLAY_MODULES` lists it.
"""

import importlib
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, cast

from tracereel._core.wrapping import BOUNDARY
from tracereel.tape import classes
from tracereel.tape.format import TapeError

ALLOWED: Final = "TRACEREEL_REPLAY_MODULES"
_ENVIRONMENTS: Final = frozenset({"site-packages", "dist-packages", "node_modules"})
_MARKS: Final = ("pyvenv.cfg", "conda-meta")
_LIBRARY: Final = re.compile(r"python\d+\.\d+t?")
_MAX_FOLDER_CHARS: Final = 4_096
"""Longest path that Linux takes."""
_DEMO: Final = Path(__file__).resolve().parents[1] / "demo"

Announce = Callable[[str], None]
"""Callback that receives a line of text before an import."""


@dataclass(frozen=True, slots=True)
class Found:
    """Module that was found and not imported."""

    name: str
    file: str
    folder: str
    """Folder to add to `sys.path`, or an empty string."""


def for_tape(path: str, folder: str = "", announce: Announce | None = None) -> ModuleType:
    """Return the module of `module:function` on a tape; import it if allowed.

    Args:
        folder: folder of the program, relative to the directory where it was started.
        announce: callback that is called before anything is imported.
    """
    module_name = path.partition(":")[0]
    loaded = classes.loaded(module_name)
    if issubclass(type(loaded), ModuleType):
        found: ModuleType = loaded
        return found
    place = _find(path, _folders(folder))
    if announce is not None:
        announce(f"importing {place.name} from {place.file}, which the tape names")
    if place.folder and place.folder not in sys.path:
        sys.path.insert(0, place.folder)
    return imported(path)


def file_of(module_name: str) -> str:
    """Return the file of a module that a tape may import; nothing is imported.

    Raises:
        TapeError: there is no such module, or a tape may not import it.
    """
    return _find(f"{module_name}:", _folders("")).file


def imported(path: str) -> ModuleType:
    """Import the module of `module:function`."""
    module_name = path.partition(":")[0]
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise _missing(path, error.name) from error
        raise TapeError(
            f"{path!r} cannot be loaded: it needs {error.name!r}, which is not installed here"
        ) from error
    except Exception as error:
        raise TapeError(
            f"{path!r} cannot be loaded: its module raises {type(error).__name__}: {error}"
        ) from error


def _missing(path: str, missing: str) -> TapeError:
    return TapeError(
        f"{path!r} cannot be loaded: there is no module {missing!r} here ({Path.cwd()})."
        " Run this in the program's folder, in its environment; or say what to call"
        " (--run module:function, run.call(function))"
    )


def _folders(folder: str) -> list[str]:
    """Return the folders to search first: the program's, if below the working directory, and that."""
    here = Path.cwd()
    # Resolving a path takes time quadratic in its parts.
    if len(folder) > _MAX_FOLDER_CHARS:
        return [str(here)]
    try:
        inside = (here / folder).resolve()
    except (OSError, ValueError):
        return [str(here)]
    return [str(inside), str(here)] if inside.is_relative_to(here.resolve()) else [str(here)]


def _find(path: str, folders: Sequence[str]) -> Found:
    """Find a module and its parent packages without importing them."""
    module_name = path.partition(":")[0]
    name, inside, file, first = "", None, "", ""
    for part in module_name.split("."):
        name = f"{name}.{part}" if name else part
        loaded = sys.modules.get(name)
        if name != module_name and issubclass(type(loaded), ModuleType):
            inside = list(classes.dict_of(cast("ModuleType", loaded)).get("__path__") or ())
            continue
        spec = _spec(name, inside, folders)
        if spec is None:
            raise _missing(path, name)
        inside = list(spec.submodule_search_locations or ())
        file = spec.origin if spec.has_location and spec.origin else ""
        # A namespace package runs no code; the modules in it are checked.
        if file or not inside:
            _check(module_name, file)
        first = first or file or inside[0]
    _check(module_name, file)
    return Found(module_name, file, next((each for each in folders if _below(first, each)), ""))


def _spec(name: str, path: list[str] | None, folders: Sequence[str]) -> ModuleSpec | None:
    """Return the spec of a module; `importlib.util.find_spec` would import its parents."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is None:
            continue
        # Only `PathFinder` searches folders.
        searched = [*folders, *sys.path] if path is None and finder is PathFinder else path
        spec: ModuleSpec | None = find(name, searched)
        if spec is not None:
            return spec
    return None


def _check(module_name: str, file: str) -> None:
    if _listed(module_name):
        return
    where = Path(file).resolve() if file else None
    if where is not None and (where.is_relative_to(_DEMO) or _is_of_project(where)):
        return
    raise TapeError(
        f"{module_name!r} is named by the tape and is not imported: it is not part of the project"
        f" in {Path.cwd()} ({file or 'built in'}). If you trust it, say what to call yourself"
        " (--run module:function, run.call(function)), run this in the program's folder, or list"
        f" the module in {ALLOWED}"
    )


def _listed(module_name: str) -> bool:
    names = (name.strip() for name in os.environ.get(ALLOWED, "").split(","))
    return any(name and f"{module_name}.".startswith(f"{name}.") for name in names)


def _is_of_project(file: Path) -> bool:
    """Return whether a file is below the working directory and not in an environment."""
    here = Path.cwd().resolve()
    if not file.is_relative_to(here) or not _ENVIRONMENTS.isdisjoint(file.parts):
        return False
    if any(file.is_relative_to(each) for each in _libraries()):
        return False
    inner = file.relative_to(here)
    folders = [here.joinpath(*inner.parts[:depth]) for depth in range(1, len(inner.parts))]
    # Hidden folders hold environments (.venv, .tox), caches and other downloads.
    return not any(
        each.name.startswith(".")
        or _LIBRARY.fullmatch(each.name)
        or any((each / mark).exists() for mark in _MARKS)
        for each in folders
    )


@lru_cache(maxsize=1)
def _libraries() -> tuple[Path, ...]:
    """Return the folders of the standard library and of installed packages."""
    paths = sysconfig.get_paths()
    found = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple(Path(each).resolve() for each in dict.fromkeys(found))


def _below(file: str, folder: str) -> bool:
    return Path(file).resolve().is_relative_to(Path(folder).resolve())


def member(owner: Any, name: str) -> Any:
    """Return a member of a module or class without running its code."""
    # `isinstance` would consult the object's `__class__`.
    if not issubclass(type(owner), (type, ModuleType)):
        raise KeyError(name)
    return classes.dict_of(owner)[name]


@lru_cache(maxsize=4096)
def is_apart(function: Any) -> bool:
    """Return whether the variable that a traced function is named for holds an untraced one."""
    module_name, _, name = classes.function_path(function).partition(":")
    found: Any = classes.loaded(module_name)
    for part in name.split("."):
        try:
            found = member(found, part)
        except KeyError:
            return False
    found = found.__func__ if type(found) in (classmethod, staticmethod) else found
    return type(found) is FunctionType and BOUNDARY not in vars(found)
