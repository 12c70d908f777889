"""Real ClickHouse server on loopback, as a user would run it: its own HTTP and native listeners.

The program is `libchdb.so` of the npm package that `.ci/tools` fetches; nothing of it is changed. It
has no TLS listener, no `ON CLUSTER`, and runs async inserts synchronously. Another server can be named:
`TRACEREEL_TEST_CLICKHOUSE=clickhouse://user:password@host:port`; the tests make databases `db_…` in it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.collector import free_port, http
from tests.support.waiting import wait_until

NAMED = os.environ.get("TRACEREEL_TEST_CLICKHOUSE", "")
REPOSITORY = Path(__file__).parents[2]
LIBRARY = REPOSITORY / ".venv" / "clickhouse" / "libchdb.so"
USER, PASSWORD = "tracereel", "pw"
BACKUP_DISK = "saved"
MISSING = "there is no ClickHouse server: bash .ci/tools fetches it (x86-64 Linux with npm)"
# It listens for as long as a query runs.
_RUN = (
    "SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP;"
    " SELECT sleepEachRow(3) FROM numbers(1000000)"
    " SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0 FORMAT Null"
)
_USERS = """<clickhouse>
<profiles><default><use_hedged_requests>0</use_hedged_requests><max_threads>2</max_threads></default>{profiles}</profiles>
<quotas><default/></quotas>
<users>
<default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
<access_management>1</access_management></default>
<{user}><password>{password}</password><networks><ip>::/0</ip></networks><profile>default</profile>
<quota>default</quota></{user}>
{users}
</users></clickhouse>
"""
_CONFIG = """<clickhouse>
<log-level>warning</log-level><logger><log>{folder}/server.log</log></logger>
<path>{folder}/data/</path><users_config>{folder}/users.xml</users_config>
<tcp_port>{tcp_port}</tcp_port><http_port>{http_port}</http_port><listen_host>127.0.0.1</listen_host>
<background_pool_size>2</background_pool_size><background_schedule_pool_size>4</background_schedule_pool_size>
{more}
</clickhouse>
"""


@dataclass
class ClickHouseServer:
    """Server process with its data in a folder, which outlives the process."""

    folder: Path
    more: str = ""
    """Further elements of its configuration."""
    profiles: str = ""
    """Further profiles of users."""
    users: str = ""
    """Further users."""
    http_port: int = field(default_factory=free_port)
    tcp_port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None

    def start(self) -> "ClickHouseServer":
        """Start it on its data and wait until it answers."""
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        (self.folder / "users.xml").write_text(
            _USERS.format(profiles=self.profiles, users=self.users, user=USER, password=PASSWORD)
        )
        config = self.folder / "config.xml"
        ports = {"http_port": self.http_port, "tcp_port": self.tcp_port}
        config.write_text(_CONFIG.format(folder=self.folder, more=self.more, **ports))
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-I", Path(__file__).with_name("clickhouse_main.py")),
                    *(LIBRARY, "--config-file", config, "--path", self.folder / "data"),
                    *("--query", _RUN),
                ],
                cwd=self.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Its own group: an interrupt of the tests stops it by `stop`.
                start_new_session=True,
            )
        wait_until(self._answers, timeout=60, message=f"no answer, see {self.folder}/output")
        return self

    def _answers(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            raise AssertionError(f"it ended: {(self.folder / 'output').read_text()[-2000:]}")
        try:
            return http("GET", f"http://127.0.0.1:{self.http_port}/ping", timeout=2).status == 200
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it with SIGKILL and wait for its end."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    @property
    def pid(self) -> int:
        assert self.process is not None, "it was not started"
        return self.process.pid

    @property
    def dsn(self) -> str:
        """Return what `--store` takes, without a database."""
        return f"clickhouse://{USER}:{PASSWORD}@127.0.0.1:{self.http_port}"


def new_database(dsn: str) -> str:
    """Return what `--store` takes for a database that does not exist yet."""
    return f"{dsn.rstrip('/')}/db_{uuid.uuid4().hex}"


def backup_disk(folder: Path) -> str:
    """Return the configuration of a disk that a server may write backups to."""
    return (
        f"<backups><allowed_disk>{BACKUP_DISK}</allowed_disk></backups><storage_configuration><disks>"
        f"<{BACKUP_DISK}><type>local</type><path>{folder}/</path></{BACKUP_DISK}>"
        "</disks></storage_configuration>"
    )


def is_available() -> bool:
    """Return whether a server can be started here."""
    return LIBRARY.exists()


@pytest.fixture(scope="session")
def clickhouse_server():
    """Return the address of the shared server, which no test may stop."""
    if NAMED:
        yield NAMED
        return
    if not is_available():
        pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="tracereel-clickhouse-"))
    running = ClickHouseServer(folder)
    try:
        yield running.start().dsn
    finally:
        running.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def new_server(tmp_path):
    """Return a factory of servers that tests may kill."""
    if not is_available():
        pytest.skip(MISSING)
    made = []

    def make(folder: Path | None = None, **options: object) -> ClickHouseServer:
        made.append(ClickHouseServer(folder or tmp_path / f"clickhouse_{len(made)}", **options))
        return made[-1]

    yield make
    for each in made:
        each.kill()
