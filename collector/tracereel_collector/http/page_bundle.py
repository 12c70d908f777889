"""One file from the modules of the page, and one from its styles, so that a few requests load it.

The modules are plain ES modules that a browser can load one by one. They are joined when the
collector starts: each becomes a function that is called when it is first imported, and returns what
it exports. There is no parser: only the forms of `import` and `export` below are understood, each
at the beginning of a line; anything else is refused, which a test notices before a release does.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final

VENDOR: Final = "vendor/"

_IMPORT: Final = re.compile(r'^import (?:([^"\'`;]*?) from )?"(\.[^"\n]*)";$', re.MULTILINE)
_LAZY: Final = re.compile(r'\bimport\("(\.[^"\n]*)"\)')
_WORKER: Final = re.compile(r'\bnew Worker\("(\.[^"\n]*)"')
_EXPORT: Final = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
_LIST: Final = re.compile(r"^(?:.*;)?(export ?\{([^{}]*)\};)$", re.MULTILINE)
_OTHER: Final = re.compile(r"^(?:import ?(?:[{*\"']|\w+(?:,| from\b))|export\b).*$", re.MULTILINE)
_STYLE: Final = re.compile(r'^@import "([^"\n]*)";$', re.MULTILINE)
_ONCE: Final = """\
const once = (make) => {
  let made;
  return () => (made ??= make());
};
"""


class PageBundleError(Exception):
    """A module of the page has a form that cannot be joined."""


def join_modules(files: Mapping[str, str], entry: str, address: Callable[[str], str]) -> str:
    """Return one module that does what `entry` does; `address` is that of a file left out."""
    return _Joined(files, address).text(entry)


def join_styles(files: Mapping[str, str], entry: str) -> str:
    """Return a style sheet with its imports in their place."""
    return _STYLE.sub(lambda found: files[_resolve(entry, found[1])], files[entry])


class _Joined:
    """Functions made from modules so far, each after those that it imports."""

    def __init__(self, files: Mapping[str, str], address: Callable[[str], str]) -> None:
        self._files = files
        self._address = address
        self._names: dict[str, str] = {}
        self._open: list[str] = []
        self._functions: list[str] = []

    def text(self, entry: str) -> str:
        """Return the module, which begins with the entry."""
        name = self._add(entry)
        return "\n".join((_ONCE, *self._functions, f"{name}();\n"))

    def _add(self, path: str) -> str:
        """Add a module and its imports; return the name of its function."""
        if path in self._open:
            raise PageBundleError(f"modules import each other: {' → '.join(self._open)} → {path}")
        if path in self._names:
            return self._names[path]
        if path not in self._files:
            raise PageBundleError(f"there is no module {path}, which {self._open[-1]} imports")
        self._open.append(path)
        body = self._files[path]
        exports: list[str] = []
        if path.startswith(VENDOR) and (listed := _LIST.search(body)):
            exports = [_renamed(each) for each in listed[2].split(",") if each.strip()]
            body = body[: listed.start(1)] + body[listed.end(1) :]
        else:
            body = _IMPORT.sub(lambda found: self._import(path, found), body)
            exports = [found[2] for found in _EXPORT.finditer(body)]
            body = _EXPORT.sub(r"\1 \2", body)
            if left := _OTHER.search(body):
                raise PageBundleError(f"{path}: {left[0]!r} cannot be joined")
        self._open.pop()
        # After the imports, as a lazy import may lead back to this module.
        name = self._names[path] = f"module{len(self._names)}"
        body = _LAZY.sub(lambda found: self._lazily(path, found), body)
        body = _WORKER.sub(lambda found: self._worker(path, found), body)
        self._functions.append(
            f"// {path}\nconst {name} = once(() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}});\n"
        )
        return name

    def _import(self, path: str, found: re.Match[str]) -> str:
        made = f"{self._add(_resolve(path, found[2]))}()"
        what = found[1]
        if what is None:
            return f"{made};"
        if what.startswith("* as "):
            return f"const {what[5:]} = {made};"
        if not what.startswith("{"):
            return f"const {{ default: {what} }} = {made};"
        return f"const {re.sub(r' as ', ': ', what)} = {made};"

    def _lazily(self, path: str, found: re.Match[str]) -> str:
        wanted = _resolve(path, found[1])
        if wanted.startswith(VENDOR):
            return f'import("{self._address(wanted)}")'
        return f"Promise.resolve().then({self._add(wanted)})"

    def _worker(self, path: str, found: re.Match[str]) -> str:
        """Return the start of a worker, which is a file of its own."""
        return f'new Worker("{self._address(_resolve(path, found[1]))}"'


def _resolve(path: str, wanted: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), wanted))


def _renamed(exported: str) -> str:
    own, _, name = exported.strip().partition(" as ")
    return f"{name}: {own}" if name else own
