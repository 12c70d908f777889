"""Model of a run: a tree of steps built from events and spans.

    rows → steps → tree → chains, analysis (usage, path, errors, waste), ledger → summary → serialize

Everything after `rows` is pure. Replay, trace and comparison use it.
"""
