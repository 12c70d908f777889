"""Where the schema's tables are: on one server, or on every node of a cluster.

On a cluster a stored table `t` is two tables: `t_local`, replicated within its shard, and `t`,
distributed over the shards by a hash of the row. `Null` tables and their views are on every node: the
node that receives an insert decodes it and distributes the rows. A view that reads a stored table reads
and writes the local tables of its shard.
"""

import re
from dataclasses import dataclass
from typing import Final

from tracereel_collector.errors import StartupError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
WINDOW_SECONDS: Final = 28 * 24 * 3600
"""Time for which replicas remember tokens; a batch delayed longer could be stored twice."""
_WINDOW = "non_replicated_deduplication_window = 10000"
# Replicas limit tokens by number and by age, by default an hour.
_REPLICATED_WINDOW = (
    "replicated_deduplication_window = 10000"
    f", replicated_deduplication_window_seconds = {WINDOW_SECONDS}"
)
_DURABLE = (
    "fsync_after_insert = 1, fsync_part_directory = 1,"
    " min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1,"
    " old_parts_lifetime = 480"
)
"""Settings by which inserts and merges survive a power cut."""
_CONTENT = (
    "index_granularity = 256, index_granularity_bytes = 16777216,"
    " min_age_to_force_merge_seconds = 7200, min_age_to_force_merge_on_partition_only = 1"
)
"""Settings of a table with content: after the day of arrival all its parts become one."""
_REPLICA = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"


@dataclass(frozen=True, slots=True)
class Layout:
    """Form of the schema: on one server, or on a cluster by its name in `remote_servers`."""

    cluster: str = ""

    def __post_init__(self) -> None:
        if self.cluster and not _NAME.fullmatch(self.cluster):
            raise StartupError(
                f"{self.cluster!r} is not the name of a cluster; expected letters, digits, _, . and -"
            )

    @property
    def suffix(self) -> str:
        """End of the names of tables that store rows on this node only."""
        return "_local" if self.cluster else ""

    @property
    def table_settings(self) -> str:
        """Settings of every table with rows."""
        return f"{_REPLICATED_WINDOW if self.cluster else _WINDOW}, {_DURABLE}"

    def values(self) -> dict[str, str]:
        """Return what differs between the two forms, by its `$name` in the `.sql` files."""
        return {
            "cluster": self.cluster,
            "local": self.suffix,
            # Lines for clusters are comments elsewhere.
            "on_cluster": "" if self.cluster else "--",
            "replicated": "Replicated" if self.cluster else "",
            "replica": _REPLICA if self.cluster else "",
            "replica_and": f"{_REPLICA}, " if self.cluster else "",
            "merge_tree_settings": self.table_settings,
            "content_settings": f"{self.table_settings}, {_CONTENT}",
        }


SERVER: Final = Layout()
