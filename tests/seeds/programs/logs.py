"""A program that writes its log lines to the file it is given, or sets up no logging at all."""

import sys

import log_agents

import tracereel

tracereel.configure(endpoint="http://127.0.0.1:9")
if len(sys.argv) > 1:
    tracereel.configure_logs(path=sys.argv[1])
log_agents.run()
tracereel.shutdown(0.0)
