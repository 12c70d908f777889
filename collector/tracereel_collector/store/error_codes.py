"""Classification of ClickHouse error codes of inserts: bad data, temporary, or unknown."""

from typing import Final

DATA_ERRORS: Final = frozenset(
    {6, 26, 27, 32, 33, 38, 41, 53, 69, 70, 72, 117, 130, 131, 246, 407, 436, 444, 469, 636}
)
"""Errors of the data: parsing, conversion, the schema of a body."""

MEMORY_LIMIT: Final = 241
BAD_ARGUMENTS, INVALID_PROTOBUF = 36, "Invalid protobuf data"
"""Ambiguous code, and the message that identifies bad data."""

ACCESS_DENIED: Final = frozenset({164, 497})
"""The user or its profile may not do this; retried as if temporary, for an operator can mend it."""

ID_IN_USE: Final = 216
"""Another query runs under the same id."""

UNFINISHED: Final = 341
"""A change is recorded, but some replicas are away or slow."""

TEMPORARY_ERRORS: Final = {
    60: "UNKNOWN_TABLE",
    74: "CANNOT_READ_FROM_FILE_DESCRIPTOR",
    75: "CANNOT_WRITE_TO_FILE_DESCRIPTOR",
    76: "CANNOT_OPEN_FILE",
    81: "UNKNOWN_DATABASE",
    159: "TIMEOUT_EXCEEDED",
    160: "TOO_SLOW",
    164: "READONLY",
    173: "CANNOT_ALLOCATE_MEMORY",
    192: "UNKNOWN_USER",
    193: "WRONG_PASSWORD",
    194: "REQUIRED_PASSWORD",
    198: "DNS_ERROR",
    201: "QUOTA_EXCEEDED",
    202: "TOO_MANY_SIMULTANEOUS_QUERIES",
    203: "NO_FREE_CONNECTION",
    209: "SOCKET_TIMEOUT",
    210: "NETWORK_ERROR",
    225: "NO_ZOOKEEPER",
    236: "ABORTED",
    242: "TABLE_IS_READ_ONLY",
    243: "NOT_ENOUGH_SPACE",
    244: "UNEXPECTED_ZOOKEEPER_ERROR",
    252: "TOO_MANY_PARTS",
    254: "NO_ACTIVE_REPLICAS",
    279: "ALL_CONNECTION_TRIES_FAILED",
    285: "TOO_FEW_LIVE_REPLICAS",
    286: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
    289: "REPLICA_IS_NOT_IN_QUORUM",
    319: "UNKNOWN_STATUS_OF_INSERT",
    UNFINISHED: "UNFINISHED",
    369: "ALL_REPLICAS_ARE_STALE",
    394: "QUERY_WAS_CANCELLED",
    415: "ALL_REPLICAS_LOST",
    425: "SYSTEM_ERROR",
    439: "CANNOT_SCHEDULE_TASK",
    497: "ACCESS_DENIED",
    499: "S3_ERROR",
    516: "AUTHENTICATION_FAILED",
    999: "KEEPER_EXCEPTION",
}
"""Temporary errors, retried without limit."""
