"""Executions, their context, and the recorder of their events."""
