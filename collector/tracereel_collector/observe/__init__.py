"""The collector's own spans and log lines, sent to another OTLP endpoint and never to itself.

Off unless `TRACEREEL_SELF_TO` names one; then a span for each request answered and each batch delivered,
and each log line, wait in a bounded queue for a thread that sends them.

Never to itself: an address that is this collector's is refused at the start. An export says whose it
is in a header: no collector makes spans of such requests, and the one whose own they are refuses them,
should a proxy lead them home.
"""
