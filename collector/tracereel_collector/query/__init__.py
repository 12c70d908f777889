"""Queries to the store, independent of the queue and of HTTP."""
