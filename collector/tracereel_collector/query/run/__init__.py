"""The model of a run: rows of events and spans become steps, a tree of them, and what it amounts to.

    rows → steps → tree (→ clocks) → path, chains, waste, errors, ledger → summary

Everything behind `rows` is pure: replay, trace and comparison all stand on it.
"""
