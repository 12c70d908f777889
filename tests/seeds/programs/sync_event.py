"""A program that emits a `sync` event and looks at once where it is."""

import json
import os
import sys
from pathlib import Path

import tracereel
from tracereel.client import Client
from tracereel.providers import BatchResultNormalizer, message_fields

MESSAGE = {"type": "ai", "id": "msg_1", "content": "Order SO-001 was created."}
SPOOL = Path(os.environ["TRACEREEL_SPOOL_DIR"])

tracereel.configure()
(event,) = BatchResultNormalizer().normalize([MESSAGE]).events
with tracereel.traced_agent("orchestrator", trace_id=sys.argv[1]) as agent:
    agent.emit(message_fields(event))
    spooled = [path.read_bytes() for path in SPOOL.rglob("*") if path.is_file()]
    agent.emit(message_fields(event), wait="stored", timeout=30.0)
    timeline = Client().replay(sys.argv[1]).timeline
    stored = [step.details for step in timeline if step.event == "agent.message.normalized"]
tracereel.shutdown(20.0)
print(
    json.dumps({"in_spool": any(b"SO-001" in each for each in spooled), "stored": len(stored) == 2})
)
