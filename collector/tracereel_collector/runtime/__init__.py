"""Clock, shares, periodic tasks and process primitives."""
