"""User of a ClickHouse server with the documented rights and a profile that contradicts our statements."""

import re
from pathlib import Path

from tests.support.clickhouse_server import PASSWORD

NAME = "collector"
RIGHTS_DATABASE = "rights"
"""Database that it has its rights on."""
GROWING = Path(__file__).parents[2] / "docs" / "growing.md"
OPPOSITE = {
    "aggregate_functions_null_for_empty": 1,
    "alter_sync": 0,
    "async_insert": 1,
    "cancel_http_readonly_queries_on_client_close": 0,
    "cast_keep_nullable": 1,
    "data_type_default_nullable": 1,
    "date_time_output_format": "iso",
    "date_time_overflow_behavior": "throw",
    "deduplicate_blocks_in_dependent_materialized_views": 0,
    "deduplicate_insert": "disable",
    "distributed_foreground_insert": 0,
    "distributed_product_mode": "deny",
    "empty_result_for_aggregation_by_empty_set": 1,
    "fallback_to_stale_replicas_for_distributed_queries": 0,
    "final": 1,
    "flatten_nested": 0,
    "function_sleep_max_microseconds_per_block": 3000000,
    "group_by_use_nulls": 1,
    "input_format_parallel_parsing": 1,
    "insert_deduplicate": 0,
    "join_default_strictness": "ANY",
    "join_use_nulls": 1,
    "load_balancing": "random",
    "materialized_views_ignore_errors": 1,
    "max_block_size": 8192,
    "max_execution_time": 600,
    "max_insert_threads": 4,
    "max_replica_delay_for_distributed_queries": 1,
    "min_insert_block_size_bytes": 1,
    "min_insert_block_size_rows": 1,
    "mutations_sync": 0,
    "optimize_and_compare_chain": 1,
    "output_format_json_named_tuples_as_objects": 0,
    "output_format_json_quote_64bit_integers": 1,
    "output_format_json_quote_denormals": 1,
    "prefer_column_name_to_alias": 1,
    "prefer_localhost_replica": 1,
    "query_plan_enable_optimizations": 1,
    "replication_wait_for_inactive_replica_timeout": 120,
    "session_timezone": "Asia/Tokyo",
    "skip_unavailable_shards": 1,
    "transform_null_in": 1,
    "wait_for_async_insert": 0,
}
"""Settings of its profile; a server may have any of them."""


def documented_rights(database: str, *, cluster: bool = False) -> list[str]:
    """Return the statements of docs/growing.md, for a database and the user of these tests."""
    text = GROWING.read_text(encoding="utf-8")
    found = re.findall(r"(?m)^GRANT .*$", text)
    assert found
    return [
        each.partition(";")[0].replace("tracereel.*", f"{database}.*").removesuffix(" TO tracereel")
        for each in found
        if cluster or "on a cluster" not in each
    ]


def profile() -> str:
    """Return the profile, as an element of the users' configuration."""
    values = "".join(f"<{name}>{value}</{name}>" for name, value in OPPOSITE.items())
    return f"<opposite>{values}</opposite>"


def user(rights: list[str], *, name: str = NAME) -> str:
    """Return the user, as an element of the users' configuration."""
    queries = "".join(f"<query>{each}</query>" for each in rights)
    return (
        f"<{name}><password>{PASSWORD}</password><networks><ip>::/0</ip></networks>"
        f"<profile>opposite</profile><quota>default</quota><grants>{queries}</grants></{name}>"
    )
