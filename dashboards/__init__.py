"""Grafana dashboards as code: `python -m dashboards.build` writes `json/`."""
