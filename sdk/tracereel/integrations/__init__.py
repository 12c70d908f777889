"""Ties to other people's servers and clients; none of them is imported unless you do it."""
