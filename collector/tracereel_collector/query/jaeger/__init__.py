"""Jaeger query APIs over the store: services, operations, traces, dependencies."""
