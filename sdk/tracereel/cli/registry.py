"""Registry of commands and their modules; only the called one is imported."""

import importlib
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from tracereel.cli.command import Command

ENTRY_POINT_GROUP: Final = "tracereel.commands"
_OWN_PACKAGES: Final = ("tracereel", "tracereel_collector")


@dataclass(frozen=True, slots=True)
class BaseCommand:
    """Command of the base install: its help line and the module with `COMMAND`."""

    help: str
    module: str


BASE_COMMANDS: Final = {
    "demo": BaseCommand("Run the demo agent pipeline and record it.", "tracereel.cli.demo"),
    "replay": BaseCommand("Show what happened in a run, step by step.", "tracereel.cli.replay"),
    "export": BaseCommand(
        "Export recorded events, spans or scores as NDJSON or Parquet.", "tracereel.cli.export"
    ),
    "traces": BaseCommand("Find runs.", "tracereel.cli.traces"),
    "trace": BaseCommand("Show a run as a tree.", "tracereel.cli.trace"),
    "tail": BaseCommand("Watch what the collector receives, live.", "tracereel.cli.tail"),
    "agents": BaseCommand("Show what agents did lately.", "tracereel.cli.agents"),
    "diff": BaseCommand("Compare two runs step by step.", "tracereel.cli.diff"),
    "sessions": BaseCommand("List conversations, or show one.", "tracereel.cli.sessions"),
    "test-from": BaseCommand("Make a pytest from a recorded run.", "tracereel.cli.make_test"),
    "doctor": BaseCommand(
        "Say what is configured, reachable, writable and installed.", "tracereel.cli.doctor"
    ),
    "ship": BaseCommand(
        "Deliver the events that ended processes left behind.", "tracereel.cli.ship"
    ),
    "version": BaseCommand("Print the version.", "tracereel.cli.version"),
}

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
    "schema": "Print the tables, as statements for a ClickHouse server of one's own.",
}
"""Commands of the collector, listed here so that `--help` does not import it."""


class CommandUnavailableError(Exception):
    """The package or extra of a command is not installed; the message names it."""


def help_lines() -> dict[str, str]:
    """Return the one-line help of every command without importing any of them."""
    lines = {**COLLECTOR_COMMANDS, **{name: base.help for name, base in BASE_COMMANDS.items()}}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        package = point.module.partition(".")[0]
        lines.setdefault(point.name, f"Added by the package {package}.")
    return lines


def load(name: str) -> Command:
    """Import and return a command by name."""
    if (base := BASE_COMMANDS.get(name)) is not None:
        command: Command = importlib.import_module(base.module).COMMAND
        return command
    points = tuple(entry_points(group=ENTRY_POINT_GROUP, name=name))
    if not points:
        raise CommandUnavailableError(_needs(name))
    return _load_entry_point(points[0])


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


def _load_entry_point(point: EntryPoint) -> Command:
    try:
        command: Command = point.load()
    except ImportError as error:
        raise unavailable(point.name, error) from error
    return command


def _needs(name: str) -> str:
    if name in COLLECTOR_COMMANDS:
        return f"tracereel {name} needs the collector: pip install 'tracereel[collector]'"
    return f"tracereel {name} needs a package that is not installed"
