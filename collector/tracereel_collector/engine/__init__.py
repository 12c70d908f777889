"""Embedded ClickHouse in a child process, behind ClickHouse's HTTP interface.

    Supervisor (in `tracereel serve`)            `python -m tracereel_collector.engine`
    binds 127.0.0.1:port, keeps it       fd ──>  accepts on it, thread per connection
    writes engine.secret (0600)          file ─> every request must show it
    holds the pipe to stdin              EOF ──> exits at once: no orphan keeps lock or port
    /health every 10 s, 3 misses = kill  <────── SELECT 1 on a handle kept for this
    restarts with backoff                        flock on engine.lock names its holder

Only `handles` (inside the child) imports chdb.
"""

from tracereel_collector.engine.settings import EngineSettings
from tracereel_collector.engine.supervisor import EngineStartError, Supervisor

__all__ = ["EngineSettings", "EngineStartError", "Supervisor"]
