"""Runs of the small program, recorded by a process that sends them to a collector."""

import subprocess
import sys

from tests.support.collector import http
from tests.support.desk import text_of
from tests.support.waiting import wait_until


def record_into(collector, desk, name, count):
    """Run the program in a process that records; return the trace ids when their tapes are there."""
    folder = desk.folder.parent
    script = folder / "record.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(desk.folder)!r})\n"
        "import tracereel, desk\n"
        "tracereel.configure(record='all')\n"
        f"for number, text in {[(n, text_of(n)) for n in range(count)]!r}:\n"
        "    desk.desk(number, text)\n"
        "assert tracereel.flush(30).spooled == 0\n"
    )
    environment = {
        "TRACEREEL_ENDPOINT": collector.url,
        "TRACEREEL_SPOOL_DIR": str(folder / "spool"),
        "DESK_COUNTER": str(desk.counter),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": "/usr/bin:/bin",
    }
    subprocess.run(
        [sys.executable, str(script)],
        cwd=desk.folder,
        env=environment,
        check=True,
        capture_output=True,
        timeout=60,
    )
    desk.counter.unlink()

    def found():
        answer = http("GET", f"{collector.url}/v1/traces?pipeline={name}&limit=50").json()
        return [each["trace_id"] for each in answer["traces"]]

    def whole(trace_id):
        answer = http("GET", f"{collector.url}/v1/traces/{trace_id}/replayable").json()
        return answer.get("replayable") == "yes"

    wait_until(
        lambda: len(found()) == count and all(map(whole, found())), timeout=60, message="no tapes"
    )
    return found()
