"""From received bytes to a checked body in the queue; nothing here knows the store."""
