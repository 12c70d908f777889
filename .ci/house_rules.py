"""Checks rules of the code base that no linter has; run by `make check`.

Every rule prints its violations; the exit code is 1 if there are any.
"""

import ast
import asyncio
import io
import re
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import grimp

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("sdk/tracereel", "collector/tracereel_collector")
OWN_PACKAGES = ("tracereel", "tracereel_collector")
MAX_LINES = 500
MAX_SCRIPT_COLUMNS = 120
BANNED = re.compile(
    r"\b(told|tells?|heard|hears?|anew|nobody|somebody|whoever|everybody|anybody|nought"
    r"|for good|(?:is|are|was|were) said|what (?:came|comes|became|becomes) of)\b",
    re.IGNORECASE,
)
"""Words that are not plain; docs/glossary.md lists the ones to use."""
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "docs/sdk/*.md",
    "docs/start/*.md",
)
QUOTING_PAGES = ("docs/moves.md", "docs/seeds.md")
"""Pages with old names, or words of the founding documents."""
SCRIPT_COMMENT = re.compile(r"^\s*(?://|/?\*|--).*|\s//\s.*")
"""Comment in a line of JavaScript, CSS or SQL."""
COMPAT = re.compile(r"/_?(gevent_|third_party_)?compat\.py$")
"""Modules that may use private names of third parties."""
PUBLIC_UNDERSCORES = ("_getframe", "_exit", "_asdict", "_replace", "_fields")
"""Documented names of the standard library."""
LAZY = {
    "sdk/tracereel/_pytest_plugin.py": "pytest loads the plugin in every test run of every user",
    "sdk/tracereel/_export/span_exporter.py": "requests is loaded with the first foreign span only",
    "collector/tracereel_collector/engine/process.py": "the lock is taken before chDB is loaded",
}
"""Modules that may import our own packages inside of functions, with the reason."""
BY_NAME = {
    "sdk/tracereel/__init__.py": "public names are loaded on first use",
    "sdk/tracereel/resilience/__init__.py": "public names are loaded on first use",
    "sdk/tracereel/tape/__init__.py": "public names are loaded on first use",
    "sdk/tracereel/cli/registry.py": "a command is loaded when it is called",
    "sdk/tracereel/demo/examples.py": "an example is loaded when it is called",
    "sdk/tracereel/_core/recorder.py": "tapes are loaded only if they are on",
    "sdk/tracereel/_core/span_outlet.py": "OpenTelemetry's SDK is loaded with the first span",
    "sdk/tracereel/_core/framework_tools.py": "an adapter is loaded with its framework",
    "sdk/tracereel/_core/framework_entries.py": "a framework that the program uses",
    "sdk/tracereel/tape/classes.py": "modules of the recorded program",
    "sdk/tracereel/tape/modules.py": "modules of the recorded program",
    "collector/tracereel_collector/engine/compression.py": "codecs of other projects",
    "collector/tracereel_collector/store/price_package.py": "prices of another project",
}
"""Modules that may load a module by its name, with the reason."""
VENDORED = {
    listing.parent / file["to"]
    for half in ("collector", "tests")
    for listing in (ROOT / half).rglob("vendor.toml")
    for package in tomllib.loads(listing.read_text()).values()
    for file in package["files"]
}
"""Files of other projects, kept byte for byte."""

Problems = Iterator[str]


class Module:
    """A parsed source file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(ROOT).as_posix()
        self.text = path.read_text()
        self.tree = ast.parse(self.text)

    def at(self, node: ast.AST) -> str:
        """Return the position of a node as `file:line`."""
        return f"{self.name}:{getattr(node, 'lineno', 1)}"


def long_files(_: list[Module]) -> Problems:
    """Find source files above the size limit."""
    for folder in ("sdk", "collector", "tests", "bench", "docs", "examples", "dashboards", ".ci"):
        for pattern in ("*.py", "*.js", "*.css", "*.html", "*.sql"):
            for file in (ROOT / folder).rglob(pattern):
                if file in VENDORED:
                    continue
                lines = len(file.read_text().splitlines())
                if lines > MAX_LINES:
                    yield f"{file.relative_to(ROOT)}: {lines} lines; at most {MAX_LINES}"


def long_script_lines(_: list[Module]) -> Problems:
    """Find lines of JavaScript above the width limit."""
    for folder in ("collector", "tests"):
        for pattern in ("*.js", "*.mjs", "*.cjs"):
            for file in sorted((ROOT / folder).rglob(pattern)):
                if file in VENDORED or "node_modules" in file.parts:
                    continue
                for number, line in enumerate(file.read_text().splitlines(), 1):
                    if len(line) > MAX_SCRIPT_COLUMNS:
                        place = f"{file.relative_to(ROOT)}:{number}"
                        yield f"{place}: {len(line)} characters; at most {MAX_SCRIPT_COLUMNS}"


def missing_module_docstrings(modules: list[Module]) -> Problems:
    """Find product modules without a docstring."""
    for module in modules:
        if ast.get_docstring(module.tree) is None:
            yield f"{module.name}: a module begins with a docstring"


def repeated_class_names(modules: list[Module]) -> Problems:
    """Find class names that are used more than once in the product."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.at(node))
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"class {name} is defined {len(found)} times: {', '.join(found)}"


def banned_words(modules: list[Module]) -> Problems:
    """Find words in docstrings and comments that are not plain."""
    for module in modules:
        if not BANNED.search(module.text):
            continue
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            if token.type == tokenize.COMMENT:
                for word in BANNED.findall(token.string):
                    yield f"{module.name}:{token.start[0]}: {word!r} in a comment"
        for node in ast.walk(module.tree):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if is_text and isinstance(node.value.value, str):
                for word in BANNED.findall(node.value.value):
                    yield f"{module.at(node)}: {word!r} in a docstring"


def banned_words_in_tests(_: list[Module]) -> Problems:
    """Find words in test names, and in docstrings and comments of tests and tools."""
    folders = ("tests", "bench", "dashboards", "docs", "examples")
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    found = [file for file in files if BANNED.search(file.read_text().replace("_", " "))]
    modules = [Module(file) for file in found]
    yield from banned_words(modules)
    for module in modules:
        for node in ast.walk(module.tree):
            name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
            for word in BANNED.findall(name.replace("_", " ")):
                if name.startswith("test_"):
                    yield f"{module.at(node)}: {word!r} in a test name"


def banned_words_in_scripts_and_pages(_: list[Module]) -> Problems:
    """Find words in comments of other languages and in the documentation that are not plain."""
    scripts = [
        file
        for pattern in ("*.js", "*.css", "*.sql")
        for file in (ROOT / "collector").rglob(pattern)
        if file not in VENDORED
    ]
    pages = [file for pattern in PAGES for file in ROOT.glob(pattern)]
    for file in sorted(scripts + pages):
        name = file.relative_to(ROOT).as_posix()
        if name in QUOTING_PAGES:
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            text = line if file in pages else "".join(SCRIPT_COMMENT.findall(line))
            for word in BANNED.findall(text):
                yield f"{name}:{number}: {word!r} is not plain"


def function_level_imports(modules: list[Module]) -> Problems:
    """Find imports of our own packages inside of functions."""
    for module in modules:
        if module.name in LAZY:
            continue
        for function in ast.walk(module.tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    for name in _imported(node):
                        if name.partition(".")[0] in OWN_PACKAGES:
                            yield f"{module.at(node)}: {name} is imported inside of a function"


def modules_loaded_by_name(modules: list[Module]) -> Problems:
    """Find `import_module` where no reason is listed: layers and cycles do not see it."""
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Name | ast.Attribute) and module.name not in BY_NAME:
                name = node.id if isinstance(node, ast.Name) else node.attr
                if name in ("import_module", "__import__"):
                    yield f"{module.at(node)}: a module is loaded by its name"


def import_cycles(_: list[Module]) -> Problems:
    """Find modules that import each other, counting imports inside of functions."""
    graph = grimp.build_graph(*OWN_PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    waiting = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    while free := [name for name, imported in waiting.items() if not imported & waiting.keys()]:
        for name in free:
            del waiting[name]
    if waiting:
        yield f"{', '.join(sorted(waiting))} import each other, or import modules that do"


def private_names_of_third_parties(modules: list[Module]) -> Problems:
    """Find imports of other packages' private names outside of the compat modules."""
    for module in modules:
        if COMPAT.search("/" + module.name):
            continue
        for node in ast.walk(module.tree):
            for name in _imported(node):
                package, *rest = name.split(".")
                private = any(part.startswith("_") and not part.endswith("__") for part in rest)
                if package not in OWN_PACKAGES and private:
                    yield f"{module.at(node)}: {name} is private"


def private_attributes_of_third_parties(modules: list[Module]) -> Problems:
    """Find uses of private attributes that no class or module of ours defines."""
    own = set(PUBLIC_UNDERSCORES)
    for module in modules:
        for node in ast.walk(module.tree):
            own.update(_defined(node))
    for module in modules:
        if COMPAT.search("/" + module.name):
            continue
        for node in ast.walk(module.tree):
            name = _accessed(node) or ""
            if name.startswith("_") and not name.endswith("__") and name not in own:
                yield f"{module.at(node)}: {name} is private"


def _defined(node: ast.AST) -> list[str]:
    """Return the names that a statement or expression defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return [name]
        case ast.Assign(targets=[ast.Name(id="__slots__")], value=ast.Tuple(elts=names)):
            return [str(each.value) for each in names if isinstance(each, ast.Constant)]
        case ast.alias(name=name, asname=other):
            return [*name.split("."), other or name]
    return []


def private_names_of_asyncio(modules: list[Module]) -> Problems:
    """Find uses of private attributes of event loops and timers outside of the compat modules."""
    loop = asyncio.new_event_loop()
    owners = (loop, loop.call_later(0, print))
    loop.close()
    private = {name for owner in owners for name in dir(owner) if not name.endswith("__")}
    private = {name for name in private if name.startswith("_")}
    for module in modules:
        if COMPAT.search("/" + module.name):
            continue
        # A class of ours may have an attribute of the same name.
        own = {node.attr for node in ast.walk(module.tree) if _is_own_attribute(node)}
        for node in ast.walk(module.tree):
            name = _accessed(node)
            if name in private - own:
                yield f"{module.at(node)}: {name} is private to asyncio"


def _is_own_attribute(node: ast.AST) -> TypeGuard[ast.Attribute]:
    owner = node.value if isinstance(node, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def _accessed(node: ast.AST) -> str | None:
    """Return the name of an attribute that is read, written or passed to `getattr`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
        name = node.args[1]
        if node.func.id in ("getattr", "setattr", "hasattr") and isinstance(name, ast.Constant):
            return str(name.value)
    return None


def line_budget(modules: list[Module]) -> Problems:
    """Compare the lines of each room with its budget."""
    budget = tomllib.loads((ROOT / ".ci" / "line_budget.toml").read_text())
    lines: dict[str, int] = defaultdict(int)
    for module in modules:
        half, *rest = module.path.relative_to(ROOT).parts
        lines[half] += module.text.count("\n")
        room = rest[1] if len(rest) > 2 else "root"
        lines[f"{half}.{room}"] += module.text.count("\n")
    lines["total"] = lines["sdk"] + lines["collector"]
    allowed = {"total": budget["total"]}
    for half in ("sdk", "collector"):
        allowed[half] = budget[half]["total"]
        allowed |= {
            f"{half}.{room}": most for room, most in budget[half].items() if room != "total"
        }
    for name, count in sorted(lines.items()):
        if name not in allowed:
            yield f"{name}: {count} lines and no budget in .ci/line_budget.toml"
        elif count > allowed[name]:
            yield f"{name}: {count} lines; the budget is {allowed[name]} (.ci/line_budget.toml)"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        return [f"{node.module}.{each.name}" for each in node.names]
    return []


RULES = (
    long_files,
    long_script_lines,
    missing_module_docstrings,
    repeated_class_names,
    banned_words,
    banned_words_in_tests,
    banned_words_in_scripts_and_pages,
    function_level_imports,
    modules_loaded_by_name,
    import_cycles,
    private_names_of_third_parties,
    private_attributes_of_third_parties,
    private_names_of_asyncio,
    line_budget,
)


def main() -> int:
    """Run every rule and print the violations."""
    modules = [Module(path) for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))]
    problems = 0
    for rule in RULES:
        for problem in rule(modules):
            problems += 1
            print(f"{rule.__name__}: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
