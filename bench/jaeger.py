"""Measure the latency of Jaeger queries over many spans.

    python bench/jaeger.py [--spans 10000000] [--runs 7]

The spans are generated in a new embedded store: 50 services with 40 operations each, 10 spans per
trace, spread over a day; every tenth trace has two services. Prints the median and the maximum.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.engine_store import store_of_its_own
from tracereel_collector.query.jaeger.reader import Jaeger, JaegerSearch
from tracereel_collector.store.clickhouse import ClickHouseStore

DAY = 86_400 * 10**9
START = 1_769_126_400 * 10**9
CHUNK = 500_000
MAKE = """
INSERT INTO spans_in
    (Timestamp, TraceId, SpanId, ParentSpanId, TraceState, SpanName, SpanKind, ServiceName,
     ResourceAttributes, ScopeName, ScopeVersion, SpanAttributes, Duration, StatusCode, StatusMessage,
     TenantId, SequenceNumber, IngestedAt, Source)
SELECT
    fromUnixTimestamp64Nano(
        {start} + intDiv(number, 10) * intDiv({day}, intDiv({spans}, 10)) + number % 10 * 1000
    ) AS Timestamp,
    lower(hex(MD5(toString(intDiv(number, 10))))) AS TraceId,
    leftPad(lower(hex(number)), 16, '0') AS SpanId,
    if(number % 10 = 0, '', leftPad(lower(hex(number - 1)), 16, '0')) AS ParentSpanId,
    '' AS TraceState,
    concat('operation ', toString(cityHash64(number) % 40)) AS SpanName,
    'Internal' AS SpanKind,
    concat('service-', toString((intDiv(number, 10) + (number % 100 = 9)) % 50)) AS ServiceName,
    CAST(map('service.name', ServiceName) AS Map(LowCardinality(String), String)) AS ResourceAttributes,
    'bench' AS ScopeName, '' AS ScopeVersion,
    CAST(map('http.route', '/v1/x', 'user.id', toString(number % 1000))
         AS Map(LowCardinality(String), String)) AS SpanAttributes,
    cityHash64(number) % 1000000000 AS Duration,
    if(number % 97 = 0, 'Error', 'Unset') AS StatusCode, '' AS StatusMessage,
    'default' AS TenantId, number AS SequenceNumber,
    toDateTime64(Timestamp, 9, 'UTC') AS IngestedAt, 'otlp' AS Source
FROM numbers({first}, {count})
"""


def fill(store: ClickHouseStore, spans: int) -> None:
    """Generate the spans, with a progress bar."""
    for first in range(0, spans, CHUNK):
        count = min(CHUNK, spans - first)
        store.command(MAKE.format(start=START, day=DAY, spans=spans, first=first, count=count))
        done = (first + count) / spans
        sys.stderr.write(f"\r[{'#' * int(40 * done):<40}] {first + count:,} spans")
    sys.stderr.write("\n")


def questions(jaeger: Jaeger) -> dict[str, object]:
    """Return the queries by name."""

    def search(**more: object) -> list[str]:
        given = {
            "service": "service-7",
            "start": START,
            "end": START + DAY,
            "tags": {},
            "limit": 20,
        }
        return jaeger.find("default", JaegerSearch(**{**given, **more}))

    found = search()
    end = START + DAY
    return {
        "services": lambda: jaeger.services("default"),
        "operations of a service": lambda: jaeger.operations("default", "service-7"),
        "one trace": lambda: jaeger.traces("default", found[:1]),
        "20 traces": lambda: jaeger.traces("default", found),
        "search a service, 1 day": search,
        "search a service, last hour": lambda: search(start=end - DAY // 24),
        "search by duration, 1 day": lambda: search(min_duration=999_000_000),
        "search by tag, last hour": lambda: search(start=end - DAY // 24, tags={"user.id": "70"}),
        "search by tag, 1 day": lambda: search(tags={"user.id": "70"}),
        "dependencies, last hour": lambda: jaeger.dependencies(
            "default", start=end - DAY // 24, end=end
        ),
        "dependencies, 1 day": lambda: jaeger.dependencies("default", start=START, end=end),
    }


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with store_of_its_own(memory=2 << 30) as store:
        fill(store, options.spans)
        jaeger = Jaeger(store, now_unix_nano=lambda: START + DAY)
        print(f"{options.spans:,} spans")
        for name, ask in questions(jaeger).items():
            times = []
            for _ in range(options.runs):
                started = time.perf_counter()
                ask()
                times.append(1000 * (time.perf_counter() - started))
            print(f"{name:<30} {statistics.median(times):9.1f} ms {max(times):9.1f} ms")


if __name__ == "__main__":
    main()
