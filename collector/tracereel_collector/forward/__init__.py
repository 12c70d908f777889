"""Sends what was received on to another OTLP endpoint, beside the line and never in its way."""
