"""SQL of users: read-only statements of one tenant, checked before they run.

    words      checks on the text: a single statement, its kind and its format
    names      refuses names of relations that may not be read, wherever they occur
    tree       checks the engine's own syntax tree: only known tables, functions and clauses pass
    functions  allow list of functions (`functions.txt`)
    catalogue  readable tables, each with the filter that restricts it to a tenant
    execute    applies the checks and runs the statement under limits

A table is readable only if it has a filter. The engine applies the filter to every read of the table,
however the statement refers to it; `readonly = 1` prevents statements from changing that.
"""

from tracereel_collector.query.user_sql.execute import PeoplesSql, SqlLimits, SqlQuery

__all__ = ["PeoplesSql", "SqlLimits", "SqlQuery"]
