"""Writes the generated parts of the documentation; the tests check that they are current."""

import ast
import inspect
import itertools
import json
import re
import sys
from dataclasses import MISSING, fields
from pathlib import Path

from tracereel.content import model
from tracereel.events_schema import json_schema
from tracereel_collector.config import Settings
from tracereel_collector.http.build import ROUTES
from tracereel_collector.ingest.otlp_schema import SIGNALS
from tracereel_collector.store.dialects.columns import COLUMNS

HERE = Path(__file__).parent
CLIENTS = HERE.parent / "tests" / "clients"
FIXTURES = HERE.parent / "tests" / "collector" / "store" / "dialects" / "fixtures"


def generated() -> dict[Path, str]:
    """Every file with a generated part, and the text it should have."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    http = HERE / "http.md"
    dialects = HERE / "dialects.md"
    security = HERE / "security.md"
    content = HERE / "content.md"
    text = _replaced(dialects.read_text(encoding="utf-8"), "columns", _columns_table())
    text = _replaced(text, "clients", _clients_table())
    return {
        dialects: _replaced(text, "dialects", _dialects_table()),
        content: _replaced(content.read_text(encoding="utf-8"), "content", _content_tables()),
        HERE / "events.schema.json": schema,
        HERE / "seeds.md": _seeds(),
        security: _replaced(security.read_text(encoding="utf-8"), "scopes", _scopes_table()),
        http: _replaced(http.read_text(encoding="utf-8"), "settings", _settings_table()),
    }


def _seeds() -> str:
    """The page of the seeds, from the rows of their test suite."""
    sys.path.insert(0, str(HERE.parent))  # this file is run as a script
    from tests.seeds.document import document

    return document()


def _settings_table() -> str:
    lines = ["| variable | default | what |", "|---|---|---|"]
    for each in fields(Settings):
        default = each.default if each.default is not MISSING else "~/.local/share/tracereel"
        name = f"TRACEREEL_{each.name.upper()}"
        lines.append(f"| `{name}` | `{default}` | {each.metadata['doc']} |")
    return "\n".join(lines).replace("| `` |", "| none |")


def _scopes_table() -> str:
    """Every route by the scope it demands, as registered."""
    routes: dict[str, list[str]] = {"write": [], "read": [], "admin": [], "public": []}
    for route in ROUTES:
        for method in sorted(route.methods):
            routes[route.scope.value].append(f"`{method} {route.path_format}`")
    routes["write"] += [f"gRPC `{signal.service}/Export`" for signal in SIGNALS]
    routes["public"].append("`GET /openapi.json`")
    names = {"public": "none"}
    lines = ["| scope | routes |", "|---|---|"]
    lines += [f"| {names.get(s, f'`{s}`')} | {', '.join(each)} |" for s, each in routes.items()]
    return "\n".join(lines)


def _columns_table() -> str:
    lines = ["| column | type | what |", "|---|---|---|"]
    lines += [f"| `{name}` | `{kind}` | {said} |" for name, (kind, _, said) in COLUMNS.items()]
    return "\n".join(lines)


def _content_tables() -> str:
    """The fields of the content model, from its classes."""
    source = ast.parse(inspect.getsource(model))
    blocks = []
    for node in source.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            about = ast.get_docstring(node) or ""
            lines = [f"### {node.name}", "", about, "", "| field | type | what |", "|---|---|---|"]
            for field, after in itertools.pairwise([*node.body, ast.Pass()]):
                if isinstance(field, ast.AnnAssign):
                    said = after.value if isinstance(after, ast.Expr) else None
                    text = said.value if isinstance(said, ast.Constant) else ""
                    kind = ast.unparse(field.annotation).replace("|", "or")
                    lines.append(f"| `{ast.unparse(field.target)}` | `{kind}` | {text} |")
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


SHOWN = {
    "kind": "CallKind",
    "provider": "Provider",
    "model asked": "ModelRequested",
    "model served": "ModelServed",
    "prompt tokens": "PromptTokens",
    "completion tokens": "CompletionTokens",
    "cache": "CacheReadTokens",
    "reasoning": "ReasoningTokens",
    "cost": "CostUsd",
    "input": "InputMessages",
    "output": "OutputMessages",
    "tool calls": "ToolCalls",
    "tool": "ToolName",
    "agent": "AgentName",
    "workflow": "WorkflowName",
    "session": "SessionId",
    "user": "UserId",
    "finish": "FinishReason",
    "error": "ErrorType",
}


def _clients_table() -> str:
    """The fields of each recorded client, from the reviewed results of its test."""
    reviewed = json.loads((CLIENTS / "fields.json").read_text(encoding="utf-8"))
    fields = [name for name in next(iter(reviewed.values())) if name not in ("totals", "agents")]
    heads = " | ".join(name.replace("_", " ") for name in fields)
    lines = [f"| client | {heads} | recorded with |", "|---" * (len(fields) + 2) + "|"]
    for client, said in reviewed.items():
        recorded = json.loads((CLIENTS / "recordings" / f"{client}.json").read_text("utf-8"))
        packages = [f"{package} {number}" for package, number in recorded["packages"].items()]
        marks = ["✓" if said[name] else "-" for name in fields]
        lines.append(f"| {client} | {' | '.join(marks)} | {', '.join(packages)} |")
    return "\n".join(lines)


def _dialects_table() -> str:
    golden = json.loads((FIXTURES / "golden.json").read_text(encoding="utf-8"))
    versions = json.loads((FIXTURES / "versions.json").read_text(encoding="utf-8"))
    lines = [f"| fixture | {' | '.join(SHOWN)} | made with |", "|---" * (len(SHOWN) + 2) + "|"]
    for name in sorted(golden, key=lambda each: (each not in versions, each)):
        filled = {column for span in golden[name] for column in span}
        marks = ["✓" if column in filled else "-" for column in SHOWN.values()]
        packages = [f"{package} {number}" for package, number in versions.get(name, {}).items()]
        lines.append(f"| {name} | {' | '.join(marks)} | {', '.join(packages) or 'written'} |")
    return "\n".join(lines)


def _replaced(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: generated by `make docs` -->", f"<!-- end of {name} -->"
    part = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    return part.sub(lambda _: f"{begin}\n\n{table}\n\n{end}", text)


def main() -> int:
    """Write the generated documents; with `--check`, only name those that are out of date."""
    stale = [
        path
        for path, text in generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if "--check" in sys.argv:
            print(f"{path.name} is out of date; run: make docs")
        else:
            path.write_text(generated()[path], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
