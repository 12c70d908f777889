"""Live tail: one queue reader per process, shared by all subscribers.

A background thread reads acknowledged records on its own connection and uses a limited share of one
core, so it does not slow ingest. Subscribers that fall too far behind are disconnected with a message.
"""
