"""Functions of both packages that parse text, found in their syntax trees."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.pattern_walk import modules, tree_of

_TEXT = {"str", "bytes", "bytearray", "memoryview"}
_READERS = {
    *("int", "float", "Decimal", "fromisoformat", "strptime", "loads", "decode", "decode_lines"),
    *("unhexlify", "b64decode", "urlsafe_b64decode", "parse_qs", "parse_qsl", "unquote"),
    *("urlsplit", "urlparse", "ip_address", "match", "search", "fullmatch", "findall", "finditer"),
    *("sub", "feed", "get_close_matches"),
}
"""Calls that parse their text argument."""
_METHODS = {
    "split",
    "rsplit",
    "partition",
    "rpartition",
    "splitlines",
    "find",
    "index",
    "translate",
}
"""Methods of a text that parse it."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Reader:
    """Function that parses text, and whether text is its only required argument."""

    module: str
    name: str
    is_plain: bool
    takes_bytes: bool

    @property
    def full_name(self) -> str:
        return f"{self.module}:{self.name}"


def all_readers() -> Iterator[Reader]:
    """Return module-level functions with one required text argument, and all other parsers."""
    for module in modules():
        for name, function in _functions(tree_of(module).body, ""):
            texts = _text_arguments(function)
            if not texts:
                continue
            is_plain = (
                "." not in name
                and isinstance(function, ast.FunctionDef)
                and _required(function) == 1
                and function.args.args[:1] != []
                and function.args.args[0].arg in texts
            )
            if is_plain or _reads(function, set(texts)):
                kinds = next(iter(texts.values()))
                yield Reader(module, name, is_plain, "str" not in kinds)


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{prefix}{node.name}", node


def _text_arguments(function: Function) -> dict[str, set[str]]:
    given = function.args
    found = {}
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        if each.annotation is not None:
            names = {part.strip(" \"'") for part in ast.unparse(each.annotation).split("|")}
            if names & _TEXT:
                found[each.arg] = names & _TEXT
    return found


def _required(function: Function) -> int:
    given = function.args
    keywords = sum(default is None for default in given.kw_defaults)
    return len(given.posonlyargs) + len(given.args) - len(given.defaults) + keywords


def _reads(function: Function, names: set[str]) -> bool:
    def is_one(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in names

    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            inside = (part for each in node.args for part in ast.walk(each))
            if name in _READERS and any(is_one(part) for part in inside):
                return True
            if name in _METHODS and isinstance(called, ast.Attribute) and is_one(called.value):
                return True
        elif isinstance(node, (ast.For, ast.comprehension)):
            if is_one(node.iter):
                return True
        elif isinstance(node, ast.AugAssign) and is_one(node.value):
            return True
    return False
