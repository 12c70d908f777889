"""OTLP export of the collector: forwarded signals and its own telemetry."""
