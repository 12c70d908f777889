"""Collector: receives events and OTLP, stores them in ClickHouse and serves queries."""
