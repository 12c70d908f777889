"""From the queue to the store: sealed batches, exactly once, poison set aside."""
