"""Writer of run scripts: the model's responses and failures for a scenario."""

import random
import time
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

from tracereel.demo.scenarios import SCENARIOS, Scenario
from tracereel.demo.scripted_model import Answer, Script, ScriptedModel

TIMEOUT_SHARE: Final = 0.08
"""Share of runs in which a model times out for good; less than half of these fail as a whole."""
CONFLICT_SHARE: Final = 0.15
HICCUP_SHARE: Final = 0.15
"""Share of runs in which a model times out once and succeeds on retry."""
OPENING_HOURS: Final = ("08:00", "18:00")

_TASKS: Final = (
    "entity_extraction",
    "temporal_resolution",
    "place_resolution",
    "rule_check",
    "slot_choice",
)
_UNLUCKY: Final = (*_TASKS, *["place_resolution"] * 5)
"""Tasks that may time out for good; places most often, because they have a fallback."""
_ASKED_AGAIN: Final = ("entity_extraction", "place_resolution")
"""Tasks that are retried."""


@dataclass(frozen=True, slots=True)
class ScriptPlan:
    """One planned run."""

    scenario: Scenario
    script: Script
    slot_is_taken: bool


def write_plan(
    rng: random.Random, *, today: date, calm: bool = False, scenario: Scenario = SCENARIOS[0]
) -> ScriptPlan:
    """Plan one run; a calm one is a booking without failures."""
    scenario = scenario if calm else rng.choice(SCENARIOS)
    luck = rng.random()
    unlucky_task = rng.choice(_UNLUCKY)
    silent_at = unlucky_task if luck < TIMEOUT_SHARE and not calm else None
    taken = not calm and TIMEOUT_SHARE <= luck < TIMEOUT_SHARE + CONFLICT_SHARE
    script = _script(scenario, rng, today, taken, silent_at)
    if not calm and luck > 1.0 - HICCUP_SHARE:
        script = replace(script, silent_at=rng.choice(_ASKED_AGAIN), silences=1)
    return ScriptPlan(scenario, script, taken)


def usual_model(prompt: str) -> ScriptedModel:
    """Return a model that never fails, for a replay without a plan."""
    rng = random.Random(prompt)  # noqa: S311 - a script, not a secret
    scenario = next((each for each in SCENARIOS if each.prompt == prompt), SCENARIOS[0])
    plan = write_plan(rng, today=datetime.now(UTC).date(), calm=True, scenario=scenario)
    return ScriptedModel(plan.script, rng, time.sleep)


def _script(
    scenario: Scenario, rng: random.Random, today: date, taken: bool, silent_at: str | None
) -> Script:
    def sure(base: float) -> float:
        return round(min(1.0, max(0.0, base + rng.uniform(-0.04, 0.04))), 2)

    day = scenario.day(today)
    slot = f"{day.isoformat()} {scenario.time}"
    alternatives = [f"{day + timedelta(days=n)} {scenario.time}" for n in (1, 2)]
    opens, closes = OPENING_HOURS
    is_open = opens <= scenario.time < closes
    hint = scenario.place_phrase
    answers: dict[str, Answer] = {
        "entity_extraction": (
            {
                "contact": scenario.contact,
                "date": scenario.date_phrase,
                "time": scenario.time,
                "place": hint,
            },
            sure(scenario.clarity),
            f"The request names {scenario.contact} and '{scenario.date_phrase}'",
        ),
        "temporal_resolution": (
            {
                "date": day.isoformat(),
                "time": scenario.time,
                "timezone": scenario.timezone,
                "readings": [day.isoformat(), *scenario.rival_readings],
            },
            sure(1.0 - 0.12 * len(scenario.rival_readings)),
            f"'{scenario.date_phrase}' seen from {today} in {scenario.timezone} is {day}",
        ),
        "place_resolution": (
            {"place": scenario.place},
            sure(0.9 if hint else 0.75),
            f"'{hint}' matches one known place" if hint else "No place given: the usual one",
        ),
        "rule_check": (
            {"valid": is_open, "rule": "opening_hours"},
            sure(0.98),
            f"{scenario.time} is {'within' if is_open else 'outside'} {opens} to {closes}",
        ),
        "slot_choice": (
            {"slot": None if taken else slot, "offered": [slot, *alternatives]},
            sure(0.55 if taken else 0.93),
            f"{slot} is already taken" if taken else f"{slot} is free and is what was asked for",
        ),
    }
    return Script(answers, silent_at)
