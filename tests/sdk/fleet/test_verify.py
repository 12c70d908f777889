"""`tracereel verify`: failing runs that are fixed, good ones that changed, within a byte budget."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.desk import Desk
from tracereel.fleet.file import FleetFile
from tracereel.fleet.groups import FAILING, summarize
from tracereel.fleet.verdicts import Cause, RunVerdict
from tracereel.fleet.verifying import MIN_BUDGET, REPAIRS, Verification, answer, repair_of

BUG = ('"said": said}', '"said": said if number % 4 else {}["said"]}')
FIX = ('{}["said"]', '"nothing"')


def verified(desk: Desk, *words: Any) -> dict[str, Any]:
    done = desk.command("verify", *words)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "status": done.returncode, "bytes": len(done.stdout.encode())}


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    return tmp_path / "failing.fleet"


@pytest.fixture
def buggy(desk: Desk, runs: Path, failing: Path) -> Desk:
    """Program that raised in the runs 4, 8, 16 and 20, and its good runs 1, 2, 5, 7, 10 and 11."""
    desk.change(*BUG)
    desk.record(failing, [4, 8, 16, 20])
    desk.record(runs, [1, 2, 5, 7, 10, 11])
    return desk


def test_a_fix_that_keeps_the_good_runs_passes(buggy: Desk, runs: Path, failing: Path) -> None:
    buggy.change(*FIX)

    report = verified(buggy, "--failing", failing, "--good", runs)

    assert (report["status"], report["passed"], report["failures"]) == (0, True, [])
    assert report["failing"] == {
        "runs": 4,
        "fixed": 4,
        "still_failing": 0,
        "changed": 0,
        "unknown": 0,
        "fixed_on_recorded_results": 0,
    }
    assert (report["good"]["runs"], report["good"]["same"]) == (6, 6)
    assert [(each["of"], each["now"], each["runs"]) for each in report["causes"]] == [
        ("failing", "fixed", 4)
    ]
    assert not buggy.counter.exists()


def test_a_fix_that_misses_runs_and_changes_others_names_the_causes(
    buggy: Desk, runs: Path, failing: Path
) -> None:
    # Two of the failing runs are fixed, one only with another call; a good one has another prompt.
    buggy.change('{}["said"]', '"nothing" if number > 8 else {}["said"]')
    buggy.change(
        '["total"])\n    answer', '["total"] if number not in (5, 16) else [])\n    answer'
    )

    report = verified(buggy, "--failing", failing, "--good", runs)

    assert report["status"] == 1
    assert report["failures"] == ["failing: 2 runs are still_failing", "good: 1 run is changed"]
    assert (report["failing"]["fixed"], report["failing"]["fixed_on_recorded_results"]) == (2, 1)
    first, second = report["causes"][:2]
    assert (first["of"], first["now"], first["runs"]) == ("failing", "still_failing", 2)
    assert (second["of"], second["now"]) == ("good", "changed")
    assert second["cause"]["place"] == "desk / clerk / find_order"
    assert second["cause"]["code"].startswith("desk.py:")
    assert "the arguments are not those on the tape" in second["report"]
    assert report["cut"] == {"groups": 0, "reports": 0}


def test_a_run_that_needs_calls_that_were_not_recorded_is_unknown(
    buggy: Desk, failing: Path, tmp_path: Path
) -> None:
    buggy.change('{}["said"]', "refund(number, 1)")
    (run, *_) = FleetFile(failing).runs()
    tape = tmp_path / "one.tape.ndjson"
    run.tape().save(tape)

    report = verified(buggy, "--failing", tape)

    assert (report["failing"]["unknown"], report["good"]["runs"]) == (1, 0)
    assert report["causes"][0]["cause"]["kind"] == "extra"
    assert not buggy.counter.exists(), "the irreversible tool has run"


def test_a_run_in_both_sets_counts_as_failing(buggy: Desk, failing: Path) -> None:
    report = verified(buggy, "--failing", failing, "--good", failing)

    assert (report["failing"]["still_failing"], report["good"]["runs"]) == (4, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--failing", "missing.fleet"), "there is no file missing.fleet"),
        (("--failing", "desk.py"), "no tape in desk.py"),
        (("--good", "desk.py"), "--failing"),
        (("--failing", "x", "--budget", "10"), "expected at least 1000"),
    ],
)
def test_misuse_is_explained(desk: Desk, words: tuple[str, ...], message: str) -> None:
    done = desk.command("verify", *words)

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def verdicts_of(kinds: tuple[str, ...]) -> Any:
    cause = st.builds(Cause, kind=st.text(max_size=400), code=st.text(max_size=400))
    return st.lists(
        st.builds(
            RunVerdict,
            trace_id=st.text(min_size=1, max_size=300),
            verdict=st.sampled_from(kinds),
            causes=st.lists(cause, max_size=2).map(tuple),
            text=st.text(max_size=3_000),
            recorded_end=st.sampled_from(("returned", "raised", "")),
            end=st.sampled_from(("returned", "raised", "")),
        ),
        max_size=40,
        unique_by=lambda each: each.trace_id,
    )


@given(
    verdicts_of(("same", "changed", "inconclusive", "prompt_changed")),
    verdicts_of(("same", "changed", "inconclusive", "prompt_changed")),
    st.integers(MIN_BUDGET, 6_000),
    st.sampled_from((None, 2)),
)
def test_the_answer_fits_and_counts_every_run(
    failing: list[RunVerdict], good: list[RunVerdict], budget: int, indent: int | None
) -> None:
    repairs: Any = {
        repair: tuple(each for each in failing if repair_of(each) == repair) for repair in REPAIRS
    }
    found = Verification(repairs, summarize(good))

    text = answer(found, budget, indent=indent)

    assert len(text.encode()) <= budget
    data = json.loads(text)
    assert sum(data["failing"][repair] for repair in REPAIRS) == len(failing)
    assert data["good"]["same"] + sum(data["good"][kind] for kind in FAILING) == len(good)
    shown = sum(each["runs"] for each in data["causes"])
    differing = len(failing) + sum(each.verdict != "same" for each in good)
    assert shown <= differing
    assert (shown == differing) == (data["cut"]["groups"] == 0)
    assert data["cut"]["reports"] >= data["cut"]["groups"]
