"""`tracereel fleet`: pull the tapes of many runs, run them against this working tree, report."""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from tracereel.cli import connection, fleet_settings
from tracereel.cli.asking import (
    EXIT_NO,
    EXIT_NO_ANSWER,
    add_filters,
    add_run_filters,
    add_window,
    client_of,
    failed,
    filters_of,
    print_json,
    print_lines,
    with_exit_status,
)
from tracereel.cli.fleet_report import lines_of
from tracereel.cli.progress import progress
from tracereel.cli.terminal import Terminal, clean
from tracereel.client.exports import whole_file
from tracereel.fleet import verdicts
from tracereel.fleet.file import FleetFile, FleetFileError
from tracereel.fleet.groups import FAILING, FleetPolicy, FleetSummary, summarize
from tracereel.fleet.prices import PricesError, read_prices
from tracereel.fleet.pull import PullOutcome, PullSelection, pull
from tracereel.fleet.report import as_html, as_json, as_junit
from tracereel.fleet.runner import FleetRunError, run_all
from tracereel.fleet.source import RevisionError, worktree
from tracereel.fleet.storing import store
from tracereel.fleet.verdicts import RunVerdict, VerdictsError
from tracereel.tape.export import export
from tracereel.tape.format import TapeError

_SELECTION: Final = PullSelection()
_POLICY: Final = FleetPolicy()
_ERRORS: Final = (FleetFileError, VerdictsError, FleetRunError, RevisionError, PricesError)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _configure_pull(actions.add_parser("pull", help="Write the tapes of chosen runs into a file."))
    _configure_run(actions.add_parser("run", help="Execute the runs of a file with this code."))
    report = actions.add_parser("report", help="Show the report of a finished run.")
    report.add_argument("verdicts", metavar="VERDICTS", help="The file that `run` has written.")
    _add_report(report)
    report.set_defaults(baseline=None)
    promote = actions.add_parser("promote", help="Make a pytest of the example of each group.")
    promote.add_argument("file", metavar="FILE", help="The file that `pull` has written.")
    promote.add_argument(
        "--verdicts",
        metavar="VERDICTS",
        help=f"What `run` has written (default: FILE{verdicts.SUFFIX}).",
    )
    promote.add_argument("--directory", metavar="DIR", required=True, help="Where to write.")
    promote.add_argument(
        "--group",
        action="append",
        type=connection.positive,
        metavar="N",
        help="Number of a group in the report; may be given several times (default: all that"
        " are not inconclusive).",
    )


def _configure_pull(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="Where to write.")
    parser.add_argument(
        "--share", type=_share, default=1.0, metavar="S", help="Share of the runs, from 0 to 1."
    )
    parser.add_argument(
        "--variety",
        type=connection.positive,
        metavar="K",
        help="Only K runs of each path of agents, tools and decisions.",
    )
    parser.add_argument(
        "--limit",
        type=connection.positive,
        default=_SELECTION.limit,
        metavar="N",
        help=f"Most runs in the file ({_SELECTION.limit}).",
    )
    connection.add_options(parser)
    add_filters(parser)
    add_run_filters(parser)
    add_window(parser)


def _configure_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="The file that `pull` has written.")
    parser.add_argument(
        "-o",
        "--output",
        metavar="VERDICTS",
        help=f"Where to write (default: FILE{verdicts.SUFFIX}).",
    )
    fleet_settings.add_options(parser)
    parser.add_argument(
        "--baseline",
        metavar="REV",
        help="Execute each run with this revision of git first; only runs that it repeats count.",
    )
    _add_report(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="Print the report as JSON.")
    parser.add_argument("--junit", metavar="FILE", help="Write the report as JUnit XML.")
    parser.add_argument("--html", metavar="FILE", help="Write the report as one HTML file.")
    parser.add_argument(
        "--prices",
        metavar="FILE",
        help="Price file of the collector's form; else prices of the package genai-prices.",
    )
    parser.add_argument(
        "--fail-on",
        type=_verdicts,
        default=_POLICY.fail_on,
        metavar="VERDICTS",
        help=f"Verdicts that fail, with commas: {', '.join(FAILING)}, or none (changed).",
    )
    parser.add_argument(
        "--min-coverage",
        type=_share,
        default=_POLICY.min_coverage,
        metavar="S",
        help=f"Least share of conclusive runs ({_POLICY.min_coverage:g}).",
    )
    parser.add_argument(
        "--keep", action="store_true", help="Store the report in the collector, for its page."
    )
    parser.add_argument(
        "--name", metavar="NAME", default="", help="Name of the stored report, such as a branch."
    )
    connection.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run an action."""
    try:
        return with_exit_status(args, lambda: _ACTIONS[args.action](args))
    except _ERRORS as error:
        return failed(args.command, str(error), EXIT_NO_ANSWER)
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except OSError as error:
        where = error.filename or "a file"
        return failed(args.command, f"cannot write {where}: {error.strerror}", EXIT_NO_ANSWER)


def _pull(args: argparse.Namespace) -> int:
    chosen = PullSelection(
        filters=filters_of(args, "since", "until"),
        share=args.share,
        variety=args.variety or 0,
        limit=args.limit,
    )
    with progress("pulling") as bar:
        outcome = pull(client_of(args), args.output, chosen, noted=bar.update)
    print_lines(_pulled(outcome, args.output))
    return 0 if outcome.written else EXIT_NO


def _pulled(outcome: PullOutcome, path: str) -> list[str]:
    paths = f" on {outcome.paths} paths" if outcome.paths else ""
    small = outcome.size < 1e6
    size = f"{outcome.size / 1e3:.0f} KB" if small else f"{outcome.size / 1e6:.1f} MB"
    lines = [f"{outcome.written} of {outcome.looked_at} runs{paths}, {size}, to {clean(path)}"]
    return lines + [f"left out, {why}: {count}" for why, count in outcome.left_out.most_common()]


def _run(args: argparse.Namespace) -> int:
    read_prices(args.prices)  # a wrong file is refused before the runs are executed
    file = FleetFile(args.file)
    with worktree(args.baseline, Path.cwd()) if args.baseline else nullcontext() as baseline:
        return _compared(args, file, baseline)


def _compared(args: argparse.Namespace, file: FleetFile, baseline: Path | None) -> int:
    settings = fleet_settings.settings_of(args, baseline)
    found: list[RunVerdict] = []
    output = args.output or verdicts.beside(args.file)
    with verdicts.writing(output) as writer, progress("replaying") as bar:

        def finished(verdict: RunVerdict) -> None:
            found.append(verdict)
            writer.add(verdict)
            bar.update(len(found), file.total)

        run_all(file, settings, finished)
    if not args.json:
        print(f"verdicts: {clean(output)}")
    return _report(args, found)


def _shown(args: argparse.Namespace) -> int:
    return _report(args, verdicts.read(args.verdicts))


def _promote(args: argparse.Namespace) -> int:
    found = summarize(verdicts.read(args.verdicts or verdicts.beside(args.file)))
    groups = dict(enumerate(found.groups, 1))
    if unknown := [number for number in args.group or () if number not in groups]:
        raise FleetFileError(f"there is no group {unknown[0]}; the report has {len(groups)}")
    chosen = args.group or [n for n, each in groups.items() if each.verdict != "inconclusive"]
    examples = {groups[number].example.trace_id for number in chosen}
    made = 0
    for run in FleetFile(args.file).runs():
        if run.trace_id not in examples:
            continue
        try:
            files = export(run.tape(), args.directory)
        except TapeError as error:
            failed(args.command, str(error), EXIT_NO)
            continue
        made += 1
        print(f"wrote {clean(files.test)} and {files.tape.name}")
    return 0 if made == len(examples) else EXIT_NO


def _report(args: argparse.Namespace, found: list[RunVerdict]) -> int:
    """Print the report, write the files, and return the exit status of the policy."""
    summary = summarize(found, read_prices(args.prices))
    policy = FleetPolicy(args.fail_on, args.min_coverage)
    for path, made in ((args.junit, as_junit), (args.html, _page)):
        if path:
            with whole_file(path, private=True) as file:
                file.write(made(summary, policy))
    if args.json:
        print_json(as_json(summary, policy))
    else:
        print_lines(lines_of(summary, policy, Terminal.of(sys.stdout)))
    if args.keep:
        _keep(args, found, summary, policy)
    return EXIT_NO if policy.failures(summary) else 0


def _keep(
    args: argparse.Namespace, found: list[RunVerdict], summary: FleetSummary, policy: FleetPolicy
) -> None:
    client = client_of(args)
    kept = store(client, found, summary, policy, name=args.name, baseline=args.baseline or "")
    left_out = f"; {kept.left_out} reports were left out" if kept.left_out else ""
    where = f"{client.endpoint}/#/fleet/{kept.fleet_id}"
    print(f"stored: {clean(where)}{left_out}", file=sys.stderr if args.json else sys.stdout)


def _page(summary: FleetSummary, policy: FleetPolicy) -> bytes:
    return as_html(summary, policy).encode()


def _share(text: str) -> float:
    value = connection.number(text, "a share from 0 to 1", 0)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to 1")
    return value


def _verdicts(text: str) -> frozenset[str]:
    names = frozenset(each.strip() for each in text.split(",")) - {"", "none"}
    if unknown := sorted(names.difference(FAILING)):
        raise argparse.ArgumentTypeError(
            f"{unknown[0]!r} is no verdict that can fail; expected some of {', '.join(FAILING)},"
            " or none"
        )
    return names


_ACTIONS: Final = {"pull": _pull, "run": _run, "report": _shown, "promote": _promote}
