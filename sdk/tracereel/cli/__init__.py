"""`tracereel` command: parses the command line, loads one command and runs it."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from tracereel.cli import registry
from tracereel.cli.command import Command
from tracereel.errors import ConfigurationError

EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130

__all__ = ["Command", "build_parser", "main"]


def build_parser(loaded: dict[str, Command] | None = None) -> argparse.ArgumentParser:
    """Build the parser with all commands; only `loaded` ones have their options."""
    parser = argparse.ArgumentParser(
        prog="tracereel", description="A flight recorder for AI agent pipelines."
    )
    parser.add_argument("--version", action="store_true", help="Print the version and exit.")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, summary in registry.help_lines().items():
        child = commands.add_parser(name, help=summary, description=summary)
        if loaded is not None and name in loaded:
            loaded[name].configure(child)
            child.set_defaults(complain=child.error)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 (done), 1 (negative result) or 2 (could not run)."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = next((word for word in words if not word.startswith("-")), None)
    _survive_any_encoding()
    try:
        return _run(name, words, owns_process=argv is None)
    except registry.CommandUnavailableError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except ConfigurationError as error:
        print(f"tracereel {name}: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe. Python flushes stdout again at exit, which
        # would fail, so redirect it to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(name: str | None, words: list[str], *, owns_process: bool) -> int:
    known = registry.help_lines()
    command = registry.load(name) if name is not None and name in known else None
    parser = build_parser({command.name: command} if command is not None else None)
    args, unknown = parser.parse_known_args(words)
    args.owns_process = owns_process
    if unknown:
        # Report by the command's parser, whose usage lists its options.
        complain = getattr(args, "complain", parser.error)
        complain(f"unrecognized arguments: {' '.join(unknown)}")
    if args.version:
        command = registry.load("version")
    if command is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    try:
        status = command.run(args)
    except ModuleNotFoundError as error:
        # A collector command may import its extra only when it runs.
        if command.name in registry.BASE_COMMANDS or not registry.missing_package(error):
            raise
        raise registry.unavailable(command.name, error) from error
    sys.stdout.flush()
    return status


def _survive_any_encoding() -> None:
    """Replace characters that the terminal's encoding does not support."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
