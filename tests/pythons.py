"""Run the SDK's tests on every other Python of this machine that the package supports.

`make test-pythons` calls it. Interpreters are found on the path and in pyenv; each gets its own
environment under `.venvs`, created once and updated when `pyproject.toml` changes.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / ".venvs"
VERSIONS = re.findall(
    r"Programming Language :: Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text()
)
"""Python versions that the package supports."""


def version_of(python: str | Path) -> str | None:
    """Return the version of an interpreter (`3.12`), or None if it does not run (a pyenv shim)."""
    code = "import sys; print(*sys.version_info[:2], sep='.')"
    try:
        done = subprocess.run(
            [python, "-I", "-c", code], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def others() -> dict[str, Path]:
    """Return the other supported versions that are installed: version → interpreter."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[str, Path] = {}
    for version in VERSIONS:
        if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
            continue
        on_path = shutil.which(f"python{version}")
        candidates = [Path(on_path)] if on_path else []
        candidates += sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)
        for candidate in candidates:
            if version_of(candidate) == version:
                found[version] = candidate
                break
    return found


def environment(version: str, python: Path) -> Path:
    """Create an environment with the package and its test dependencies; return its interpreter."""
    home = ENVIRONMENTS / version
    inside = home / "bin" / "python"
    ready = home / ".ready"
    if not inside.exists():
        subprocess.run([python, "-m", "venv", home], check=True)
    if not ready.exists() or ready.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
        subprocess.run([*pip, "--editable", ".", "--group", "dev"], cwd=ROOT, check=True)
        ready.touch()
    return inside


def main(arguments: list[str]) -> int:
    """Run the tests on each; return the exit code of the last one that failed."""
    found = others()
    missing = [version for version in VERSIONS if version not in found]
    print(f"found {', '.join(found) or 'none'}; not tested here: {', '.join(missing)}", flush=True)
    code = 0
    for version, python in found.items():
        print(f"Python {version} ({python})", flush=True)
        inside = environment(version, python)
        command = [inside, "-m", "pytest", "-q", "-n", "2", *(arguments or ["tests/sdk"])]
        # Run all of them, also after a failure.
        code = subprocess.run(command, cwd=ROOT, check=False).returncode or code
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
