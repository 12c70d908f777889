"""Alerts without Prometheus: what is wrong is looked for here and told to a webhook."""
