"""Events of stored fleet replays."""

import uuid
from datetime import UTC, datetime
from typing import Any


def fleet_events(fleet_id: str, **head: Any) -> list[dict[str, Any]]:
    """Return the events of a stored fleet replay with one cause."""
    time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    about = {"r": "fleet", "time": time, "passed": False, "runs": 3, "coverage": 1.0}
    counts = {"same": 1, "changed": 2, "prompt_changed": 0, "inconclusive": 0, "flaky": 0}
    cause = {
        "kind": "changed",
        "place": "desk / find",
        "code": "desk.py:3 in desk",
        "argument": "n",
    }
    group = {"r": "group", "verdict": "changed", "cause": cause, "count": 2, "example": "one"}
    records = [
        {**about, "counts": counts, "group_count": 1, "failures": ["2 runs are changed"], **head},
        {**group, "runs": ["one", "two"], "agents": {"clerk": 2}, "pipelines": {"desk": 2}},
    ]
    given = {"event_type": "agent.tape.recorded", "timestamp": time, "trace_id": fleet_id}
    given |= {"event_version": "1.0.0", "tape_id": fleet_id, "tape_version": 1, "replayed": True}
    return [
        {**given, "event_id": f"evt_{uuid.uuid4().hex}", "part": part, "records": [record]}
        for part, record in enumerate(records)
    ]
