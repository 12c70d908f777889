"""Settings that our statements rely on: sent with each, because a server's profile may have others."""

from typing import Any, Final

SENSE: Final[dict[str, Any]] = {
    "aggregate_functions_null_for_empty": 0,
    "cast_keep_nullable": 0,
    "date_time_overflow_behavior": "ignore",
    "empty_result_for_aggregation_by_empty_set": 0,
    "final": 0,
    "group_by_use_nulls": 0,
    "join_default_strictness": "ALL",
    "join_use_nulls": 0,
    "prefer_column_name_to_alias": 0,
    "session_timezone": "",
    "transform_null_in": 0,
}
"""Semantics of our SQL, also in views: they run with the settings of the insert."""

DDL: Final[dict[str, Any]] = {
    **SENSE,
    "alter_sync": 2,
    "data_type_default_nullable": 0,
    "flatten_nested": 1,
    "mutations_sync": 2,
    "wait_end_of_query": 1,
}
"""For statements that create and change tables."""

ENDLESS: Final[dict[str, Any]] = {
    "cancel_http_readonly_queries_on_client_close": 1,
    "function_sleep_max_microseconds_per_block": 0,
    "max_block_size": 1,
    "max_execution_time": 0,
    "readonly": 2,
    "wait_end_of_query": 0,
}
"""For a query that runs until its client closes the connection."""

SHARDED: Final[dict[str, Any]] = {
    # Reads and inserts use the same replica of a shard, the first that is up: what was acknowledged is
    # read. A busy one seems to be some seconds behind although it has every row. See docs/adr/020.
    "load_balancing": "in_order",
    "prefer_localhost_replica": 0,
    "max_replica_delay_for_distributed_queries": 30,
    "fallback_to_stale_replicas_for_distributed_queries": 1,
    # On a cluster, subqueries must cover all shards too and run once.
    "distributed_product_mode": "global",
    # A missing shard is an error, not a smaller answer.
    "skip_unavailable_shards": 0,
}

READ: Final[dict[str, Any]] = {
    **SENSE,
    **SHARDED,
    "date_time_output_format": "simple",
    "output_format_json_named_tuples_as_objects": 1,
    "output_format_json_quote_64bit_integers": 0,
    "output_format_json_quote_denormals": 0,
}
"""For queries."""

_WRITE: Final[dict[str, Any]] = {
    **SENSE,
    **SHARDED,
    "async_insert": 0,
    # On a cluster the views write to distributed tables: wait until the shards have the rows.
    "distributed_foreground_insert": 1,
    "materialized_views_ignore_errors": 0,
    # Every insert plans all views. Looking for chains of comparisons took a quarter of that and finds none.
    "optimize_and_compare_chain": 0,
    "wait_end_of_query": 1,
}

PUT: Final[dict[str, Any]] = {
    **_WRITE,
    "deduplicate_insert": "disable",
    "insert_deduplicate": 0,
    # A profile with small blocks would make thousands of inserts of a price list.
    "min_insert_block_size_rows": 0,
    "min_insert_block_size_bytes": 0,
}
"""For inserts without a token."""

INSERT: Final[dict[str, Any]] = {
    **_WRITE,
    "deduplicate_insert": "enable",
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    # A retried insert must be split into the same blocks, or deduplication fails.
    "input_format_parallel_parsing": 0,
    "max_insert_threads": 1,
    "min_insert_block_size_rows": 0,
    "min_insert_block_size_bytes": 0,
    # Views read only the block that they are given: optimising their plans finds nothing and took a
    # fifth of an insert.
    "query_plan_enable_optimizations": 0,
}
"""For inserts with a token."""

CHANGE: Final[dict[str, Any]] = {
    **_WRITE,
    "alter_sync": 2,
    "mutations_sync": 2,
    # Replicas that are away apply the change when they are back.
    "replication_wait_for_inactive_replica_timeout": 0,
}
"""For statements that change rows."""
