"""The shape of a `tracereel` command, shared by the base commands and those other packages add."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand.

    An entry point of the group `tracereel.commands` MUST name an instance of this class (or an
    object with the same attributes). `configure` adds the command's own options to its parser;
    `run` does the work and returns the exit status: 0 done, 1 the answer is no, 2 could not try.
    """

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
