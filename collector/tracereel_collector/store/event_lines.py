r"""SQL that reads lines of events: clocks, and the content that a line has at its end.

A line with large content is `{facts,"content_bytes":N,content}`. It is split behind `N`: the head is an
object of the facts, the rest an object of the content. The quote in the marker is never part of a
string, where it would be `\"`; if the marker is a key of a nested object, the head is not valid JSON
and the line stays whole, as it does if the run is not named before the marker.
"""

from typing import Final

MARKER: Final = ',"content_bytes":'
_COLUMNS: Final = f"""position(line, '{MARKER}') AS marker_at,
        -- The functions below run on every line; on an empty one they cost nothing.
        if(marker_at > 0, line, '') AS split_line,
        position(split_line, ',', toUInt64(marker_at + {len(MARKER)})) AS comma_at,"""
_HEAD: Final = "concat(left(split_line, comma_at - 1), '}')"
_CONTENT: Final = "concat('{', substring(split_line, comma_at + 1))"
_TIME: Final = "ifNull(parseDateTime64BestEffortOrNull(upper(t.timestamp), 9, 'UTC'), ingested_at)"
_GIVEN: Final = "reinterpretAsUInt64(reverse(unhex(t.hlc)))"
# A clock more than a day ahead of the arrival is not followed: it would sort last for ever.
_CLOCK: Final = (
    f"if(t.hlc = '' OR {_GIVEN} > toUInt64(toUnixTimestamp64Nano(ingested_at)) + 86400000000000,"
    f" toUInt64(greatest(0, toUnixTimestamp64Nano({_TIME}))), {_GIVEN})"
)

FRAGMENTS: Final = {
    "has_content": f"position(body, '{MARKER}') > 0",
    "split_columns": _COLUMNS,
    "is_split": f"""(marker_at > 0 AND comma_at > marker_at
        AND JSONExtractString({_HEAD}, 'trace_id') != '' AND isValidJSON({_CONTENT}))""",
    "split_head": _HEAD,
    "split_content": _CONTENT,
    "event_time": _TIME,
    "event_clock": _CLOCK,
}
"""Values of `$name` in the `.sql` files."""
