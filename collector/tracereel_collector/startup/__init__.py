"""Opens the engine, the queue and the store of a data directory."""
