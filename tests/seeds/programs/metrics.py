"""A program with the contract's metric definitions, imported after its first traced call.

Prints the exposition of `start_http_server`, then the port and exposition of
`start_metrics_server`, as JSON.
"""

import json
import socket
import urllib.request

from prometheus_client import start_http_server

from tracereel import current_execution, start_metrics_server, traced_agent


@traced_agent("parsing_agent")
def parse(prompt: str) -> str:
    current_execution().set(confidence=0.9)
    return prompt


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return answer.read().decode()


parse("hello")
with socket.create_server(("127.0.0.1", 0)) as probe:
    free = probe.getsockname()[1]
server, _ = start_http_server(free, addr="127.0.0.1")
ours = start_metrics_server()
port = getattr(ours, "port", None) or ours.server_address[1] if ours is not None else None
print(
    json.dumps(
        {
            "start_http_server": scrape(free),
            "port": port,
            "start_metrics_server": scrape(port) if port else "",
        }
    )
)
