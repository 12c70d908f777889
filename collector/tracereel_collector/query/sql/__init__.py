"""SQL of people: read-only statements of one tenant, checked before they run.

    words      what can be told from the text alone: one statement, of which kind, in which format
    tree       what the engine's own parser makes of it: only known tables, functions and clauses pass
    functions  the functions that may be called, by name (`functions.txt`)
    catalogue  the tables that may be read, each with the filter that binds it to a tenant
    people     the three together, and the limits a statement runs under

A table may be named only if there is a filter for it, and the engine itself puts the filter on every
read of the table, however the statement came to it; `readonly = 1` keeps statements from changing that.
"""

from tracereel_collector.query.sql.people import Asked, PeoplesSql, SqlLimits

__all__ = ["Asked", "PeoplesSql", "SqlLimits"]
