"""Export of a tenant's rows in slices of bounded size, so that memory stays bounded."""

import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tracereel_collector.query.event_contents import EventContents, StoredPayload
from tracereel_collector.query.run.timeline import stored_payload
from tracereel_collector.query.store_reader import StoreReader, read_rows
from tracereel_collector.runtime.tenant_shares import ONE_TENANT, SharePolicy, TenantShares

AT_ONCE: Final = 2
"""Concurrent exports per process."""
SLICE_ROWS: Final = 5_000
SLICE_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportStream:
    """Exported table. Identifiers are constants; request values are bound."""

    table: str
    rows: str
    """SELECT of the exported columns."""
    tenant: str
    key: tuple[str, str, str]
    """Columns that order the rows uniquely; the first is the trace id."""
    types: tuple[str, str, str]
    time: str
    agent: str
    size: str
    """SQL for the approximate size of a row in bytes."""

    @property
    def ordered(self) -> str:
        """Sort key as SQL."""
        return ", ".join(self.key)

    def bound(self, name: str) -> str:
        """Return a sort position as bound parameters."""
        return "(" + ", ".join(f"{{{name}{at}:{kind}}}" for at, kind in enumerate(self.types)) + ")"

    @property
    def where(self) -> str:
        """Condition on the requested rows after a sort position."""
        return (
            f"{self.tenant} = {{tenant:String}}"
            f" AND ({{trace_id:String}} = '' OR {self.key[0]} = {{trace_id:String}})"
            f" AND ({{agent:String}} = '' OR {self.agent} = {{agent:String}})"
            # Shards of a cluster cannot read a time before 1973 as they are sent it.
            f" AND toUnixTimestamp64Nano({self.time}) >= {{since:Int64}}"
            f" AND toUnixTimestamp64Nano({self.time}) < {{until:Int64}}"
            f" AND ({{first:UInt8}} = 1 OR ({self.ordered}) > {self.bound('from')})"
        )


TABLES: Final = {
    "events": ExportStream(
        table="agent_events",
        rows="SELECT * FROM agent_events",
        tenant="tenant",
        key=("trace_id", "hlc", "sequence_number"),
        types=("String", "UInt64", "UInt64"),
        time="timestamp",
        agent="agent_name",
        size="length(payload) + content_bytes",
    ),
    "spans": ExportStream(
        table="whole_spans",
        rows="SELECT * EXCEPT (Told, ShortAttributes) FROM whole_spans",
        tenant="TenantId",
        key=("TraceId", "SpanId", "Source"),
        types=("String", "String", "String"),
        time="Timestamp",
        agent="AgentName",
        # For own spans, the length of the event is a cheap estimate; building the attributes is slow.
        size="if(Told != '', length(Told),"
        " byteSize(SpanAttributes, ResourceAttributes, `Events.Attributes`))",
    ),
    "scores": ExportStream(
        table="scores",
        rows="SELECT * FROM scores",
        tenant="tenant",
        key=("trace_id", "score_id", "sequence_number"),
        types=("String", "String", "UInt64"),
        time="updated_at",
        agent="agent_name",
        size="length(comment) + 200",
    ),
}
LAST_NANO: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSelection:
    """Row selection; empty fields match everything."""

    table: str = "events"
    trace_id: str = ""
    agent: str = ""
    since_unix_nano: int = 0
    until_unix_nano: int = LAST_NANO

    def parameters(self, tenant: str) -> dict[str, Any]:
        """Return the query parameters, before the first row."""
        zero = ["" if kind == "String" else 0 for kind in TABLES[self.table].types]
        return {
            "tenant": tenant,
            "trace_id": self.trace_id,
            "agent": self.agent,
            "since": self.since_unix_nano,
            "until": self.until_unix_nano,
            "first": 1,
            **_place("from", zero),
        }


@dataclass(frozen=True, slots=True)
class ExportPiece:
    """Bytes of an export and the number of rows in them."""

    data: bytes
    rows: int
    footer: int = 0
    """Estimated bytes behind the last row."""


def export_slots(shares: SharePolicy = ONE_TENANT) -> TenantShares:
    """Return the concurrency slots for the exports of one process."""
    return TenantShares("exports", AT_ONCE, shares)


@dataclass(frozen=True, slots=True)
class Export:
    """Query of `GET /v1/export`."""

    store: StoreReader
    slots: TenantShares = field(default_factory=export_slots)
    """Running exports; each holds a slice in memory."""
    slice_rows: int = SLICE_ROWS
    slice_bytes: int = SLICE_BYTES

    def count(self, tenant: str, wanted: ExportSelection) -> int:
        """Return the current number of rows."""
        of = TABLES[wanted.table]
        answer = self.store.select(
            f"SELECT count() FROM {of.table} WHERE {of.where}",
            wanted.parameters(tenant),
            fmt="TabSeparated",
        )
        return int(answer)

    def ndjson(self, tenant: str, wanted: ExportSelection) -> Iterator[ExportPiece]:
        """Yield one JSON object per line; events as sent, plus fields of the collector."""
        for place in self._slices(tenant, wanted):
            if wanted.table == "events":
                statement = _statement(wanted, _EVENT_COLUMNS)
                rows = read_rows(self.store, statement, tuple[str, int, str], **place)
                stored = [StoredPayload(number, payload) for payload, number, _ in rows]
                whole = self.contents.whole(tenant, stored)
                lines = [
                    stored_payload(payload, tenant, number, ingested_at) + b"\n"
                    for (_, number, ingested_at), payload in zip(rows, whole, strict=True)
                ]
                yield ExportPiece(b"".join(lines), len(lines))
            else:
                data = self.store.select(_statement(wanted), place, fmt="JSONEachRow")
                yield ExportPiece(data, data.count(b"\n"))

    def parquet(self, tenant: str, wanted: ExportSelection) -> Iterator[ExportPiece]:
        """Yield a Parquet file with all columns and one row group per slice."""
        # Imported late: large and rarely needed.
        import pyarrow.parquet as pq

        out = _DrainedBuffer()
        sample = self.store.select(f"{TABLES[wanted.table].rows} WHERE 0", {}, fmt="Parquet")
        schema = pq.read_schema(io.BytesIO(sample))
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:
            for place in self._slices(tenant, wanted):
                data = self.store.select(_statement(wanted), place, fmt="Parquet")
                rows = pq.read_table(io.BytesIO(data))
                if wanted.table == "events":
                    rows = self._with_content(tenant, rows)
                writer.write_table(rows)
                one_row = io.BytesIO()
                pq.write_table(rows.slice(0, 1), one_row, compression="zstd")
                # A file ends with the length of its footer and four letters.
                footer = int.from_bytes(one_row.getvalue()[-8:-4], "little")
                yield ExportPiece(out.taken(), rows.num_rows, footer)
        yield ExportPiece(out.taken(), 0)

    def _with_content(self, tenant: str, rows: Any) -> Any:
        """Return a table of events with whole payloads."""
        import pyarrow as pa

        numbers, payloads = rows["sequence_number"].to_pylist(), rows["payload"].to_pylist()
        stored = [
            StoredPayload(number, payload if isinstance(payload, str) else payload.decode())
            for number, payload in zip(numbers, payloads, strict=True)
        ]
        column = rows.schema.field("payload")
        whole = pa.array(self.contents.whole(tenant, stored), column.type)
        return rows.set_column(rows.schema.get_field_index("payload"), column, whole)

    @property
    def contents(self) -> EventContents:
        """Reader of content that is stored apart; a slice is limited before."""
        return EventContents(self.store, max_bytes=sys.maxsize)

    def _slices(self, tenant: str, wanted: ExportSelection) -> Iterator[dict[str, Any]]:
        """Yield the parameters of each slice: after one row, up to another."""
        of = TABLES[wanted.table]
        place = wanted.parameters(tenant)
        statement = (
            f"SELECT {of.ordered}, {of.size} FROM {of.table} WHERE {of.where}"
            f" ORDER BY {of.ordered} LIMIT {{limit:UInt32}}"
        )
        while rows := read_rows(self.store, statement, list[Any], **place, limit=self.slice_rows):
            last = self._cut(rows)
            yield {**place, **_place("to", last)}
            place |= {"first": 0, **_place("from", last)}

    def _cut(self, rows: list[list[Any]]) -> list[Any]:
        """Return the key of the last row that fits; the first row always fits."""
        total = 0
        last = rows[0]
        for row in rows:
            total += row[-1]
            if total > self.slice_bytes and row is not rows[0]:
                break
            last = row
        return last[:-1]


_EVENT_COLUMNS: Final = (
    "payload, sequence_number, formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested"
)


def _statement(wanted: ExportSelection, columns: str = "*") -> str:
    of = TABLES[wanted.table]
    return (
        f"SELECT {columns} FROM ({of.rows}) WHERE {of.where}"
        f" AND ({of.ordered}) <= {of.bound('to')} ORDER BY {of.ordered}"
    )


def _place(name: str, values: list[Any]) -> dict[str, Any]:
    return {f"{name}{at}": value for at, value in enumerate(values)}


class _DrainedBuffer(io.BytesIO):
    """Buffer that is emptied while it is written; Parquet needs the position of all bytes."""

    _taken = 0

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._taken + super().tell()

    def taken(self) -> bytes:
        """Return the data written since the last call."""
        data = self.getvalue()
        self._taken += len(data)
        self.seek(0)
        self.truncate()
        return data
