"""Alerts without Prometheus: the collector checks conditions and posts alerts to a webhook."""
