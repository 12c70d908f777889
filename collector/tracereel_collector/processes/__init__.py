"""Supervisor and worker processes."""
