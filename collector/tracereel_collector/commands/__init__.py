"""Commands of the collector, one module each; `tracereel` loads them by entry point."""
