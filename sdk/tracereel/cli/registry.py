"""Registry of commands and their modules; only the called one is imported."""

import importlib
from importlib.metadata import entry_points
from typing import Final

from tracereel.cli.command import Command

ENTRY_POINT_GROUP: Final = "tracereel.commands"
_OWN_PACKAGES: Final = ("tracereel", "tracereel_collector")


BASE_COMMANDS: Final = {
    "demo": "Run the demo agent pipeline and record it.",
    "replay": "Show what happened in a run, step by step.",
    "export": "Export recorded events, spans or scores as NDJSON or Parquet.",
    "import": "Import history: of Langfuse, OTLP files, or exported events.",
    "traces": "Find runs.",
    "trace": "Show a run as a tree.",
    "tail": "Watch what the collector receives, live.",
    "agents": "Show what agents did lately.",
    "diff": "Compare two runs step by step.",
    "score": "Rate a run, a step or a session.",
    "sessions": "List conversations, or show one.",
    "fleet": "Run many recorded runs again with this code, and group what differs.",
    "verify": "Check that a change fixes failing runs and keeps good ones as they are.",
    "bisect": "Find the first commit with which a run is replayed differently.",
    "test-from": "Make a pytest from a recorded run.",
    "doctor": "Check settings, connections, directories and installed packages.",
    "ship": "Deliver the events that ended processes left behind.",
    "version": "Print the version.",
}
"""Commands of the base install; the module of each has the functions `configure` and `run`."""
_MODULES: Final = {"test-from": "make_test", "import": "import_history"}
"""Modules that are not named like their command."""

COLLECTOR_COMMANDS: Final = {
    "serve": "Run the collector: receive, store and replay events.",
    "engine": "Run the embedded column store alone.",
    "keys": "Make, list and revoke API keys.",
    "backup": "Save queue, store and keys of one moment, also while the collector runs.",
    "restore": "Make a data directory out of a backup.",
    "retention": "Show or set how long rows are kept.",
    "clock": "Show the trusted clock, or confirm a jump of the wall clock.",
    "migrate-store": "Copy the embedded store into a ClickHouse server.",
    "quarantine": "List, show, retry and drop what could not be stored.",
    "schema": "Create, upgrade or print the tables of a ClickHouse server or a cluster.",
}
"""Commands of the collector, listed here so that `--help` does not import it."""


class CommandUnavailableError(Exception):
    """The package or extra of a command is not installed; the message names it."""


def help_lines() -> dict[str, str]:
    """Return the one-line help of every command without importing any of them."""
    lines = {**COLLECTOR_COMMANDS, **BASE_COMMANDS}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        package = point.module.partition(".")[0]
        lines.setdefault(point.name, f"Added by the package {package}.")
    return lines


def module_of(name: str) -> str:
    """Return the module of a command of the base install."""
    return f"{__package__}.{_MODULES.get(name, name)}"


def load(name: str) -> Command:
    """Import and return a command by name.

    Raises:
        CommandUnavailableError: the command belongs to a package or extra that is not installed.
    """
    if name in BASE_COMMANDS:
        module = importlib.import_module(module_of(name))
        return Command(name, BASE_COMMANDS[name], module.configure, module.run)
    points = tuple(entry_points(group=ENTRY_POINT_GROUP, name=name))
    if not points:
        raise CommandUnavailableError(_needs(name))
    try:
        command: Command = points[0].load()
    except ImportError as error:
        raise unavailable(name, error) from error
    return command


def missing_package(error: ImportError) -> bool:
    """Return whether an import failed because a third-party package is missing."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return False
    return error.name == "tracereel_collector" or (
        error.name.partition(".")[0] not in _OWN_PACKAGES
    )


def unavailable(name: str, error: ImportError) -> CommandUnavailableError:
    """Return the error for a command that cannot be imported."""
    if missing_package(error):
        return CommandUnavailableError(_needs(name))
    return CommandUnavailableError(f"tracereel {name} cannot be loaded: {error}")


def _needs(name: str) -> str:
    if name in COLLECTOR_COMMANDS:
        return f"tracereel {name} needs the collector: pip install 'tracereel[collector]'"
    return f"tracereel {name} needs a package that is not installed"
