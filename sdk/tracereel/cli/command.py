"""Interface of a `tracereel` command, for base commands and those of other packages."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand.

    An entry point of the group `tracereel.commands` MUST name an instance of this class (or an
    object with the same attributes). `configure` adds the command's options to its parser. `run`
    does the work and returns the exit status: 0 done, 1 negative result, 2 could not run.
    """

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
