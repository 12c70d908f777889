"""Records again what real packages send, each in an environment of its own below `.venvs`.

python -m tests.clients.record [CLIENT…]         (`make fixtures ONLY=CLIENT` does the same)
"""

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VENVS = ROOT / ".venvs" / "clients"
COMMON = (
    *("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
    "opentelemetry-exporter-otlp-proto-grpc",
)
NODE = ("zod", "@opentelemetry/sdk-trace-node", "@opentelemetry/exporter-trace-otlp-proto")
SECONDS = 300
"""Longest time of one client's program."""


def main():
    table = tomllib.loads((HERE / "clients.toml").read_text(encoding="utf-8"))
    wanted = sys.argv[1:] or list(table)
    failed = [name for name in wanted if not _record(name, table[name])]
    print(f"{len(wanted) - len(failed)} recorded", *(f"not {name}" for name in failed), sep=", ")
    return 1 if failed else 0


def _record(name, client):
    packages, environ = client.get("packages", []), dict(os.environ, PYTHONPATH=str(ROOT))
    python = _python([*packages, *client.get("also", [])])
    if npm := client.get("npm", []):
        modules = _node_modules(npm)
        environ["TRACEREEL_NODE_MODULES"] = str(modules)
        packages = [
            *packages,
            *(f"{each}@npm:{_npm_version(modules, each)}" for each in _names(npm)),
        ]
    file = HERE / "recordings" / f"{name}.json"
    command = [python, "-m", "tests.clients.programs.play", name, file, *packages]
    return subprocess.run(command, env=environ, cwd=ROOT, timeout=SECONDS).returncode == 0


def _python(packages):
    """Return the Python of an environment with some packages; clients with the same ones share it."""
    wanted = sorted({*packages, *COMMON})
    folder = VENVS / hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:12]
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        (folder / "ready").write_text("\n".join(wanted), encoding="utf-8")
    return python


def _node_modules(packages):
    wanted = sorted({*packages, *NODE})
    folder = VENVS / hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:12]
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "install", "--silent", "--no-fund", "--prefix", folder, *wanted], check=True
        )
        (folder / "ready").write_text("\n".join(wanted), encoding="utf-8")
    return folder / "node_modules"


def _names(packages):
    return [each.rpartition("@")[0] for each in packages]


def _npm_version(modules, package):
    return json.loads((modules / package / "package.json").read_text(encoding="utf-8"))["version"]


if __name__ == "__main__":
    sys.exit(main())
