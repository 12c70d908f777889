"""Export of the collector's own spans and log lines to another OTLP endpoint.

Off by default; enabled by `TRACEREEL_SELF_TO`. One span per request and per delivered batch, and each
log line, wait in a bounded queue for a thread that sends them.

Loops are prevented in three ways. The collector's own address is refused at startup. Exports carry the
collector's id in a header, and no collector creates spans for requests with that header. A collector
refuses its own exports if a proxy routes them back.
"""
