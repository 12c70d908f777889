"""Spans, metrics and log lines derived from events."""
