"""Traced calls, one module per kind: each knows its span, its events and its place in the run."""
