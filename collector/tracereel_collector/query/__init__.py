"""Questions to the store; nothing here knows the queue or HTTP."""
