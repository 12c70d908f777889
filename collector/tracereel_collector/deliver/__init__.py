"""Delivery from the queue into the store: sealed batches, exactly once, poison quarantined."""
