"""Record a LangGraph router with two specialists.

The graph is in `tracereel.demo.orchestrator`. Requires `pip install 'tracereel[langgraph]'`.
"""

import tracereel
from tracereel.demo.run_orchestrator import REQUESTS, run_orchestrator


def main() -> None:
    tracereel.configure(service="orchestrator-example", record="all")
    for report in run_orchestrator(runs=len(REQUESTS), interval=0.0, seed=7):
        print(f"{report.trace_id}  {report.outcome}  “{report.prompt}”")
    tracereel.flush(5.0)


if __name__ == "__main__":
    main()
