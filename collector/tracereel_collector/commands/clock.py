"""`tracereel clock`: show the trusted clock of a data directory and confirm a jump."""

import argparse
import json
from pathlib import Path

from tracereel_collector.commands.reporting import command, settings_of
from tracereel_collector.errors import StartupError
from tracereel_collector.runtime.clock.state import HOLD_NANO, SECOND
from tracereel_collector.runtime.clock.trusted import HINT, ClockStatus
from tracereel_collector.startup.data_dir import clock_of

HOLD_HOURS = HOLD_NANO // (3600 * SECOND)
EXIT_NOT_BELIEVED = 1


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--confirm", action="store_true", help="believe the wall clock as it is now"
    )
    parser.add_argument("--data-dir", type=Path, help="data directory of the collector")
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def _run(args: argparse.Namespace) -> int:
    """Show or confirm the clock; return 0 if the wall clock is trusted, else 1."""
    settings = settings_of(args, must_exist=True)
    try:
        clock = clock_of(settings)
        is_news = clock.confirm() if args.confirm else False
    except (OSError, ValueError) as error:
        raise StartupError(str(error)) from error
    status = clock.status()
    if args.json:
        print(json.dumps(status.document()))
    else:
        _show(status, confirmed=is_news)
    return 0 if status.state == "following" else EXIT_NOT_BELIEVED


def _show(status: ClockStatus, *, confirmed: bool) -> None:
    print(f"trusted {status.trusted}, wall clock {status.wall}")
    if confirmed:
        print("confirmed; a running collector follows within seconds")
    elif status.state == "following":
        print("the wall clock is believed")
    else:
        print(
            f"the wall clock is not believed: it is {status.jump_seconds / 86_400:+.1f} days off;"
            f" it has held for {status.held_seconds / 3600:.1f} of"
            f" {HOLD_HOURS} hours of uptime"
        )
        print(HINT)


COMMAND = command(
    "clock", "show the trusted clock, or confirm a jump of the wall clock", _configure, _run
)
