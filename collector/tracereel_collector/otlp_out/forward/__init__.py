"""Forwarding of received signals to another OTLP endpoint, without slowing ingest."""
