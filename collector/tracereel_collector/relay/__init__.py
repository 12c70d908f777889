"""From the outbox of the queue to the members that own the bodies."""
