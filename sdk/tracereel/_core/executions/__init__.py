"""Traced calls, one module per kind, with their spans and events."""
