"""Writer of run scripts: the model's responses and failures for a scenario."""

import random
import time
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal

from tracereel.demo.scenarios import SCENARIOS, Scenario
from tracereel.demo.scripted_model import Answer, Script, ScriptedModel

TIMEOUT_SHARE: Final = 0.08
"""Share of runs in which a model times out in every attempt; a tenth of these runs fail."""
CONFLICT_SHARE: Final = 0.15
HICCUP_SHARE: Final = 0.15
"""Share of runs in which a model times out once and succeeds on retry."""
WRONG_SHARE: Final = 0.1
"""Share of runs in which a response is wrong at first and right when asked again."""
SILENT: Final[tuple[Answer | None, ...]] = (None, None)
"""Timeouts of all attempts."""
OPENING_HOURS: Final = ("08:00", "18:00")

_TASKS: Final = (
    "entity_extraction",
    "temporal_resolution",
    "place_resolution",
    "rule_check",
    "slot_choice",
)
_UNLUCKY: Final = (*_TASKS, *["place_resolution"] * 35)
"""Tasks that may time out in every attempt; mostly places, which have a fallback: 99 % of runs succeed."""
_ASKED_AGAIN: Final = ("entity_extraction", "place_resolution", "slot_choice")
"""Tasks that are retried."""

Story = Literal["calm", "bumpy", "broken"]
"""Planned run: a booking without failures, one despite failures, or one that fails."""


@dataclass(frozen=True, slots=True)
class ScriptPlan:
    """One planned run."""

    scenario: Scenario
    script: Script
    slot_is_taken: bool


def write_plan(
    rng: random.Random,
    *,
    today: date,
    story: Story | None = None,
    scenario: Scenario | None = None,
) -> ScriptPlan:
    """Plan one run of a story; by default chance decides what happens."""
    if scenario is None:
        scenario = SCENARIOS[_TOLD.index(story)] if story is not None else rng.choice(SCENARIOS)
    luck = rng.random()
    unlucky_task, hiccup = rng.choice(_UNLUCKY), rng.choice(_ASKED_AGAIN)
    taken = story is None and TIMEOUT_SHARE <= luck < TIMEOUT_SHARE + CONFLICT_SHARE
    script = _script(scenario, rng, today, taken)
    troubles: dict[str, tuple[Answer | None, ...]] = {}
    if story in ("bumpy", "broken"):
        # A place that is never found has a fallback, a slot that was never offered has none.
        troubles["entity_extraction"] = (_without_time(script),)
        troubles["place_resolution"] = SILENT
        if story == "broken":
            troubles["slot_choice"] = (None, _not_offered(script, scenario.day(today)))
    elif story is None and luck < TIMEOUT_SHARE:
        troubles[unlucky_task] = SILENT
    elif story is None and luck > 1.0 - WRONG_SHARE:
        troubles["entity_extraction"] = (_without_time(script),)
    elif story is None and luck > 1.0 - WRONG_SHARE - HICCUP_SHARE:
        troubles[hiccup] = (None,)
    return ScriptPlan(scenario, replace(script, troubles=troubles), taken)


_TOLD: Final[tuple[Story, ...]] = ("calm", "bumpy", "broken")
"""Stories of the first runs, each with the scenario of its place."""


def story_of(number: int) -> Story | None:
    """Return the story of a run by its number, from 1; later runs are left to chance."""
    return _TOLD[number - 1] if number <= len(_TOLD) else None


def _without_time(script: Script) -> Answer:
    """Return an extraction that overlooks the time."""
    content, confidence, _ = script.answers["entity_extraction"]
    reasoning = "The request names a person and a day, but no hour"
    return {**content, "time": None}, round(confidence - 0.3, 2), reasoning


def _not_offered(script: Script, day: date) -> Answer:
    """Return a choice that is not among the offered slots."""
    content, _, _ = script.answers["slot_choice"]
    slot = f"{day - timedelta(days=1)} 23:30"
    return {**content, "slot": slot}, 0.41, f"{slot} is the closest free slot"


def usual_model(prompt: str) -> ScriptedModel:
    """Return a model that never fails, for a replay without a plan."""
    rng = random.Random(prompt)  # noqa: S311 - a script, not a secret
    scenario = next((each for each in SCENARIOS if each.prompt == prompt), SCENARIOS[0])
    plan = write_plan(rng, today=datetime.now(UTC).date(), story="calm", scenario=scenario)
    return ScriptedModel(plan.script, rng, time.sleep)


def _script(scenario: Scenario, rng: random.Random, today: date, taken: bool) -> Script:
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
    return Script(answers)
