"""Records and re-executes every agent of the corpus with many timings; prints a table.

    python -m tests.replay_corpus [--seeds 50] [--only PREFIX]

Exact recordings must give at least 99.5 % identical replays, and every difference must be
reported, in both modes.
"""

import argparse
import sys
from collections import Counter

from tests.support.replay_agents import AGENTS
from tests.support.replay_trial import record, replay

WANTED = 0.995


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--only", help="Agents whose name begins so.", default="")
    parser.add_argument("--verbose", action="store_true", help="Show every divergence.")
    args = parser.parse_args()
    names = [name for name in AGENTS if name.startswith(args.only)]
    table: dict[tuple[str, bool], Counter[str]] = {}
    total, done = len(names) * args.seeds * 2, 0
    for name in names:
        for exact in (False, True):
            counts = table[name, exact] = Counter()
            for seed in range(args.seeds):
                output, tape = record(name, seed, exact=exact)
                trial = replay(name, output, tape)
                counts[trial.verdict] += 1
                counts["asked"] += trial.asked
                done += 1
                bar = "#" * (30 * done // total)
                print(f"\r[{bar:<30}] {done}/{total} {name:<28}", end="", file=sys.stderr)
                if args.verbose and trial.verdict != "identical":
                    print(f"\n{name} seed {seed} exact={exact}: {trial.verdict}\n{trial.report}")
                    print(f"  recorded {trial.recorded}\n  now      {trial.output}")
    print(file=sys.stderr)
    print(f"{'agent':<28}{'default':>28}{'exact':>28}")
    sums: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    for name in names:
        cells = []
        for exact in (False, True):
            counts = table[name, exact]
            sums[exact].update(counts)
            cells.append(_cell(counts))
        print(f"{name:<28}{cells[0]:>28}{cells[1]:>28}")
    print(f"{'all':<28}{_cell(sums[False]):>28}{_cell(sums[True]):>28}")
    print("identical / reported / silent; calls made to the outside while replaying:", end=" ")
    made = {name: table[name, False]["asked"] + table[name, True]["asked"] for name in names}
    print(sum(made.values()), {name: count for name, count in made.items() if count} or "")
    exact_share = sums[True]["identical"] / max(1, len(names) * args.seeds)
    silent = sums[False]["silent"] + sums[True]["silent"]
    print(f"exact: {exact_share:.2%} identical (wanted {WANTED:.1%}); silent differences: {silent}")
    return 0 if exact_share >= WANTED and not silent else 1


def _cell(counts: Counter[str]) -> str:
    return f"{counts['identical']} / {counts['diverged']} / {counts['silent']}"


if __name__ == "__main__":
    sys.exit(main())
