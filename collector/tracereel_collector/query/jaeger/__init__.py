"""Jaeger's view of the store: services, operations, traces, dependencies."""
