"""Everything of a tenant, in slices: each is cut by bytes before it is read, so memory stays bounded."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from weakref import WeakSet

import msgspec

SLICE_ROWS: Final = 5_000
SLICE_BYTES: Final = 16 * 1024 * 1024


class Selects(Protocol):
    """What a query needs of the store."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A table as it is exported. Names are ours; what is asked for is bound."""

    table: str
    rows: str
    """The rows of the table as people get them."""
    tenant: str
    key: tuple[str, str, str]
    """Columns that put the rows in order, with no two alike; the first is the trace."""
    types: tuple[str, str, str]
    time: str
    agent: str
    size: str
    """About how many bytes a row has."""

    @property
    def ordered(self) -> str:
        """The key as it stands in a statement."""
        return ", ".join(self.key)

    def bound(self, name: str) -> str:
        """A place in the order, bound."""
        return "(" + ", ".join(f"{{{name}{at}:{kind}}}" for at, kind in enumerate(self.types)) + ")"

    @property
    def where(self) -> str:
        """Which rows are asked for."""
        return (
            f"{self.tenant} = {{tenant:String}}"
            f" AND ({{trace_id:String}} = '' OR {self.key[0]} = {{trace_id:String}})"
            f" AND ({{agent:String}} = '' OR {self.agent} = {{agent:String}})"
            f" AND {self.time} >= fromUnixTimestamp64Nano({{since:Int64}})"
            f" AND {self.time} < fromUnixTimestamp64Nano({{until:Int64}})"
        )


TABLES: Final = {
    "events": Exported(
        table="agent_events",
        rows="SELECT * FROM agent_events",
        tenant="tenant",
        key=("trace_id", "hlc", "sequence_number"),
        types=("String", "UInt64", "UInt64"),
        time="timestamp",
        agent="agent_name",
        size="length(payload)",
    ),
    "spans": Exported(
        table="whole_spans",
        rows="SELECT * EXCEPT (Told) FROM whole_spans",
        tenant="TenantId",
        key=("TraceId", "SpanId", "Source"),
        types=("String", "String", "String"),
        time="Timestamp",
        agent="AgentName",
        # Of our own spans, the event says how much there is; making its attributes would take longer.
        size="if(Told != '', length(Told),"
        " byteSize(SpanAttributes, ResourceAttributes, `Events.Attributes`))",
    ),
    "scores": Exported(
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
class Wanted:
    """Which rows; what is empty does not matter."""

    table: str = "events"
    trace_id: str = ""
    agent: str = ""
    since_unix_nano: int = 0
    until_unix_nano: int = LAST_NANO

    def parameters(self, tenant: str) -> dict[str, Any]:
        """As the statements want them."""
        return {
            "tenant": tenant,
            "trace_id": self.trace_id,
            "agent": self.agent,
            "since": self.since_unix_nano,
            "until": self.until_unix_nano,
        }


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of an export, and how many rows they hold."""

    data: bytes
    rows: int


class _Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    payload: str
    sequence_number: int
    ingested_at: str


_EVENTS = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class Export:
    """Answers `GET /v1/export`."""

    store: Selects
    running: WeakSet[Iterator[Piece]] = field(default_factory=WeakSet)
    """Exports under way: each holds a slice in memory. One that nobody reads any more is none."""
    slice_rows: int = SLICE_ROWS
    slice_bytes: int = SLICE_BYTES

    def count(self, tenant: str, wanted: Wanted) -> int:
        """How many rows there are now."""
        of = TABLES[wanted.table]
        answer = self.store.select(
            f"SELECT count() FROM {of.table} WHERE {of.where}",
            wanted.parameters(tenant),
            fmt="TabSeparated",
        )
        return int(answer)

    def ndjson(self, tenant: str, wanted: Wanted) -> Iterator[Piece]:
        """One object a line; events as they were sent, with what the collector added."""
        for place in self._slices(tenant, wanted):
            if wanted.table == "events":
                columns = (
                    "payload, sequence_number,"
                    " formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested"
                )
                rows = _EVENTS.decode_lines(
                    self._read(columns, wanted, place, "JSONCompactEachRow")
                )
                yield Piece(b"".join(_event(row, tenant) for row in rows), len(rows))
            else:
                data = self._read("*", wanted, place, "JSONEachRow")
                yield Piece(data, data.count(b"\n"))

    def parquet(self, tenant: str, wanted: Wanted) -> Iterator[Piece]:
        """A Parquet file with every column, a slice a row group."""
        # Large, and seldom needed: a start does not wait for it.
        import pyarrow.parquet as pq

        out = _Passing()
        sample = self.store.select(f"{TABLES[wanted.table].rows} WHERE 0", {}, fmt="Parquet")
        schema = pq.read_schema(io.BytesIO(sample))
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:
            for place in self._slices(tenant, wanted):
                data = self._read("*", wanted, place, "Parquet")
                rows = pq.read_table(io.BytesIO(data))
                writer.write_table(rows)
                yield Piece(out.taken(), rows.num_rows)
        yield Piece(out.taken(), 0)

    def _slices(self, tenant: str, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Parameters of one slice after another: behind one row, up to another."""
        of = TABLES[wanted.table]
        asked = wanted.parameters(tenant)
        zero = tuple("" if kind == "String" else 0 for kind in of.types)
        behind: tuple[Any, ...] = zero
        first = True
        while True:
            answer = self.store.select(
                f"SELECT {of.ordered}, {of.size} FROM {of.table} WHERE {of.where}"
                f" AND ({{first:UInt8}} = 1 OR ({of.ordered}) > {of.bound('from')})"
                f" ORDER BY {of.ordered} LIMIT {{limit:UInt32}}",
                {**asked, **_place("from", behind), "first": int(first), "limit": self.slice_rows},
                fmt="JSONCompactEachRow",
            )
            rows = msgspec.json.Decoder(list[Any]).decode_lines(answer)
            if not rows:
                return
            last = self._cut(rows)
            yield {
                **asked,
                **_place("from", behind),
                **_place("to", last),
                "first": int(first),
            }
            behind, first = last, False

    def _cut(self, rows: list[list[Any]]) -> tuple[Any, ...]:
        """The last row that still fits; one always does."""
        total = 0
        last = rows[0]
        for row in rows:
            total += row[-1]
            if total > self.slice_bytes and row is not rows[0]:
                break
            last = row
        return tuple(last[:-1])

    def _read(self, columns: str, wanted: Wanted, place: dict[str, Any], fmt: str) -> bytes:
        of = TABLES[wanted.table]
        return self.store.select(
            f"SELECT {columns} FROM ({of.rows}) WHERE {of.where}"
            f" AND ({{first:UInt8}} = 1 OR ({of.ordered}) > {of.bound('from')})"
            f" AND ({of.ordered}) <= {of.bound('to')}"
            f" ORDER BY {of.ordered}",
            place,
            fmt=fmt,
        )


def _place(name: str, values: tuple[Any, ...]) -> dict[str, Any]:
    return {f"{name}{at}": value for at, value in enumerate(values)}


def _event(row: _Event, tenant: str) -> bytes:
    added = {
        "tenant": tenant,
        "sequence_number": row.sequence_number,
        "ingested_at": row.ingested_at,
    }
    return row.payload.encode().rstrip()[:-1] + b"," + msgspec.json.encode(added)[1:] + b"\n"


class _Passing(io.RawIOBase):
    """A file that is handed on as it is written; Parquet asks it for nothing but its length so far."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        """It is nothing else."""
        return True

    def write(self, data: Any) -> int:
        """Keep a piece until it is taken."""
        piece = bytes(data)
        self._pieces.append(piece)
        self._length += len(piece)
        return len(piece)

    def tell(self) -> int:
        """All that was ever written."""
        return self._length

    def taken(self) -> bytes:
        """What was written since the last time."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data
