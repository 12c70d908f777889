"""A ClickHouse server behind nginx, which holds small responses back by default."""

import os
import shutil
import subprocess
from dataclasses import replace

import pytest

from tests.support.clickhouse_server import new_database
from tests.support.collector import free_port
from tests.support.waiting import wait_until
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.migrate import migrate

NGINX = os.environ.get("TRACEREEL_TEST_NGINX") or shutil.which("nginx")
CONFIGURATION = """
user root; daemon off; pid {place}/pid; error_log stderr; worker_processes 1;
events {{}}
http {{
  access_log off; client_max_body_size 0;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{upstream}; }} }}
}}
"""


@pytest.fixture
def proxied(clickhouse_server, tmp_path):
    """Return the address of a new database, through nginx with its default buffers."""
    if not NGINX:
        pytest.skip("needs nginx")
    address, port = StoreAddress.parse(new_database(clickhouse_server)), free_port()
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        CONFIGURATION.format(place=tmp_path, port=port, upstream=f"{address.host}:{address.port}")
    )
    running = subprocess.Popen(
        [NGINX, "-p", str(tmp_path), "-c", str(configuration), "-e", "stderr"]
    )
    yield replace(address, host="127.0.0.1", port=port)
    running.terminate()
    running.wait(10)


def test_schema_is_made_through_a_proxy_that_holds_small_responses_back(proxied):
    store = ClickHouseStore(proxied, query_seconds=10, query_memory_bytes=1 << 30)
    wait_until(store.outside().ping)
    store.prepare()

    assert migrate(store)
    assert migrate(store) == []

    turn = f"tracereel-schema-{proxied.database}"
    asked = "SELECT count() FROM system.processes WHERE query_id = {turn:String}"
    wait_until(lambda: store.rows(asked, turn=turn) == [("0",)], message="its turn has ended")
    store.outside().command(f"DROP DATABASE `{proxied.database}` SYNC")
    store.close()
