"""Spool and delivery of events and spans to the collector."""
