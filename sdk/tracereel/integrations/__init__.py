"""Integrations with client libraries, frameworks and servers; none is imported by default."""
