"""The `tracereel` command: listing and loading of commands, missing packages."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tracereel.cli import build_parser, registry

DOCS = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")


@pytest.fixture
def other_package(tmp_path: Path) -> str:
    """Return a PYTHONPATH directory with a distribution that registers commands."""
    site = tmp_path / "site"
    info = site / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tracereel.commands]\n"
        "greet = acme_commands:greet\n"
        "lazy = acme_commands:lazy\n"
        "broken = acme_broken:command\n"
        "serve = acme_needs_more:serve\n"
    )
    (site / "acme_commands.py").write_text(
        "from tracereel.cli.command import Command\n"
        "def configure(parser): parser.add_argument('--name', default='you')\n"
        "def run(args): print('hello', args.name); return 7\n"
        "def import_more(args): import a_package_nobody_has\n"
        "greet = Command('greet', 'Say hello.', configure, run)\n"
        "lazy = Command('lazy', 'Import late.', configure, import_more)\n"
    )
    (site / "acme_broken.py").write_text("from tracereel.events import no_such_name\n")
    (site / "acme_needs_more.py").write_text("import a_package_nobody_has\n")
    return str(site)


@pytest.fixture
def run_with_package(run_cli, cli_env, other_package):
    def run(*args: str) -> "subprocess.CompletedProcess[str]":
        return run_cli(*args, PYTHONPATH=f"{other_package}:{cli_env['PYTHONPATH']}")

    return run


def test_an_option_that_a_command_does_not_have_is_answered_with_those_it_has(run_cli):
    wrong = run_cli("diff", "a", "b", "--url", "http://127.0.0.1:4318")

    assert wrong.returncode == 2
    assert "usage: tracereel diff" in wrong.stderr
    assert "--endpoint" in wrong.stderr
    assert "unrecognized arguments: --url" in wrong.stderr


class TestListing:
    def test_help_lists_every_command_with_its_help(self, run_cli):
        shown = run_cli("--help")

        assert shown.returncode == 0
        for name, line in registry.help_lines().items():
            assert name in shown.stdout
            assert line.split(" ")[0] in shown.stdout
        assert {"demo", "replay", "doctor", "ship", "version", "serve", "engine"} <= set(
            registry.help_lines()
        )

    def test_help_imports_neither_the_collector_nor_any_command(self, cli_env):
        code = (
            "import sys, tracereel.cli\n"
            "try: tracereel.cli.main(['--help'])\n"
            "except SystemExit: pass\n"
            "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=cli_env, capture_output=True, text=True, check=True
        )

        loaded = set(done.stderr.split())
        heavy = {"fastapi", "chdb", "clickhouse_connect", "uvicorn", "tracereel_collector"}
        assert not loaded & heavy
        assert not loaded & set(map(registry.module_of, registry.BASE_COMMANDS))

    def test_without_a_command_the_help_is_shown_and_the_status_is_2(self, run_cli):
        shown = run_cli()

        assert shown.returncode == 2
        assert "COMMAND" in shown.stderr

    def test_an_unknown_command_names_those_that_exist(self, run_cli):
        shown = run_cli("rewind")

        assert shown.returncode == 2
        assert "invalid choice: 'rewind'" in shown.stderr
        assert "replay" in shown.stderr

    @pytest.mark.parametrize("name", sorted(registry.BASE_COMMANDS))
    def test_base_commands_match_the_table(self, name):
        command = registry.load(name)

        assert (name, registry.BASE_COMMANDS[name]) == (command.name, command.help)
        build_parser({name: command})


class TestDocumentation:
    @pytest.mark.parametrize("name", sorted(registry.BASE_COMMANDS))
    def test_every_option_of_a_command_is_in_its_section(self, name):
        """docs/cli.md has a section per command, and each option in it."""
        parser = argparse.ArgumentParser(add_help=False)
        registry.load(name).configure(parser)

        section = re.search(
            rf"^## `tracereel {name}\b.*?(?=^## |\Z)", DOCS, re.DOTALL | re.MULTILINE
        )
        assert section is not None
        for action in parser._actions:
            for word in action.option_strings or [str(action.metavar)]:
                assert f"`{word}" in section[0]


class TestVersion:
    @pytest.mark.parametrize("words", [("version",), ("--version",)])
    def test_version_is_one_line(self, run_cli, words):
        shown = run_cli(*words)

        assert shown.returncode == 0
        assert shown.stdout.startswith("tracereel ")
        assert shown.stdout.count("\n") == 1


class TestCommandsOfOtherPackages:
    def test_installed_commands_are_listed(self, run_with_package):
        assert "greet" in run_with_package("--help").stdout

    def test_get_their_options_and_give_the_exit_status(self, run_with_package):
        done = run_with_package("greet", "--name", "Ana")

        assert (done.returncode, done.stdout, done.stderr) == (7, "hello Ana\n", "")

    @pytest.mark.parametrize("words", [("serve",), ("serve", "--port", "1")])
    def test_missing_extra_is_one_line_with_the_package_to_install(self, run_with_package, words):
        done = run_with_package(*words)

        needs = "tracereel serve needs the collector: pip install 'tracereel[collector]'\n"
        assert (2, "", needs) == (done.returncode, done.stdout, done.stderr)

    def test_package_missing_at_run_time_is_one_error_line(self, run_with_package):
        done = run_with_package("lazy")

        assert done.returncode == 2
        assert done.stderr == "tracereel lazy needs a package that is not installed\n"

    def test_a_fault_of_the_package_is_not_mistaken_for_a_missing_extra(self, run_with_package):
        done = run_with_package("broken")

        assert done.returncode == 2
        assert "tracereel broken cannot be loaded: cannot import name 'no_such_name'" in done.stderr
        assert "Traceback" not in done.stderr
