"""ClickHouse client on a collector's store, past the collector."""

from contextlib import contextmanager
from urllib.parse import quote

import clickhouse_connect

from tests.support.collector import http
from tracereel_collector.store.clickhouse import StoreAddress


def address_of(collector):
    """Return the address of the store of a running collector."""
    if "--store" in collector.arguments:
        return StoreAddress.parse(collector.arguments[collector.arguments.index("--store") + 1])
    place = http("GET", f"{collector.url}/readyz").json()["store"]["address"]
    secret = (collector.data_dir / "store" / "engine.secret").read_text().strip()
    return StoreAddress.parse(f"clickhouse://tracereel:{quote(secret)}@{place}")


@contextmanager
def store_client(collector):
    """Return a client on the store of a running collector."""
    address = address_of(collector)
    client = clickhouse_connect.get_client(
        host=address.host,
        port=address.port,
        username=address.username,
        password=address.password,
        database=address.database,
    )
    try:
        yield client
    finally:
        client.close()
