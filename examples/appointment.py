"""Record the appointment pipeline: five agents that make decisions and may fail.

The pipeline is in `tracereel.demo.appointment`.
"""

import tracereel
from tracereel.demo.run import run_demo


def main() -> None:
    tracereel.configure(service="appointment-example", record="all")
    for report in run_demo(runs=3, interval=0.0, seed=7):
        print(f"{report.trace_id}  {report.outcome}  “{report.prompt}”")
    tracereel.flush(5.0)


if __name__ == "__main__":
    main()
