"""Validation of request bodies up to the queue; independent of the store."""
