"""Error guards, clocks, locks and exit hooks."""
