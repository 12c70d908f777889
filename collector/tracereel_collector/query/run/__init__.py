"""Model of a run: a tree of steps built from events and spans.

    rows → steps → tree (→ clocks) → path, chains, waste, errors, ledger → summary

Everything after `rows` is pure. Replay, trace and comparison use it.
"""
