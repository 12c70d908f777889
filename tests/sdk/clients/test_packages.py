"""Error messages for packages that are missing or too old."""

import subprocess
import sys
import tomllib
from pathlib import Path

import anthropic
import mcp
import openai
import pytest
from google import genai

from tracereel.integrations._packages import OLDEST
from tracereel.integrations.anthropic import wrap as wrap_anthropic
from tracereel.integrations.google import wrap as wrap_google
from tracereel.integrations.mcp import wrap as wrap_mcp
from tracereel.integrations.openai import wrap as wrap_openai

ROOT = Path(__file__).parents[3]


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )


def test_the_versions_are_those_that_the_extras_bring():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    assert {name: f"{package}>={oldest}" for name, (package, oldest) in OLDEST.items()} == {
        name: extras[name][0] for name in OLDEST
    }


@pytest.mark.parametrize(
    ("integration", "extra", "package"),
    [
        ("mcp", "mcp", "mcp"),
        ("openai", "openai", "openai"),
        ("google", "google", "google-genai"),
    ],
)
def test_a_package_that_is_missing_is_named_with_what_to_install(integration, extra, package):
    """Run as in a program whose interpreter finds only the loaded packages."""
    told = run(
        f"""
import sys
from tracereel.integrations.{integration} import instrument
sys.path.clear()
sys.path_importer_cache.clear()
instrument()
"""
    )

    last = told.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: tracereel records {package} from version")
    assert "it is not installed" in last
    assert last.endswith(f'pip install --upgrade "tracereel[{extra}]"')


@pytest.mark.parametrize(
    ("wrap", "kind"),
    [
        (wrap_anthropic, anthropic.Anthropic),
        (wrap_openai, openai.AsyncOpenAI),
        (wrap_google, genai.Client),
        (wrap_mcp, mcp.ClientSession),
    ],
)
def test_wrapping_a_class_instead_of_a_client_is_a_type_error(wrap, kind):
    with pytest.raises(TypeError, match=f"takes a client.*the class {kind.__name__} itself"):
        wrap(kind)


def installed(folder, package, version, source):
    """Install a fake package of that version, found before any other of the name."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(source)
    about = folder / f"{package}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")


def test_too_old_package_is_an_import_error_with_its_version(tmp_path):
    installed(tmp_path, "mcp", "0.9.1", "")

    told = run(
        "from tracereel.integrations.mcp import instrument; instrument()", PYTHONPATH=str(tmp_path)
    )

    last = told.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: tracereel records mcp from version 2.0 on; 0.9.1 is")
    assert "ClientSession" in last


def test_an_old_package_that_works_is_wrapped_with_a_warning(tmp_path):
    installed(
        tmp_path,
        "mcp",
        "1.9.0",
        "class ClientSession:\n    async def call_tool(self, name, arguments=None): ...\n",
    )

    told = run(
        """
import mcp
from tracereel.integrations.mcp import wrap
for _ in range(2):
    wrap(mcp.ClientSession())
""",
        PYTHONPATH=str(tmp_path),
    )

    assert told.returncode == 0
    assert told.stderr.count("UserWarning: mcp 1.9.0 is older than 2.0") == 1
    assert 'pip install --upgrade "tracereel[mcp]"' in told.stderr
