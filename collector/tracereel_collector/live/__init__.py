"""Watching live: one reader of the queue per process, its records shared by all who watch.

Nothing here is in the way of ingest: a thread reads what is already acknowledged, on a connection of
its own, within a share of one core. Whoever cannot keep up is told so.
"""
