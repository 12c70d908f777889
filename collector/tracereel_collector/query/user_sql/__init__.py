"""SQL of users: read-only statements of one tenant, checked before they run.

    statement_text  checks on the text: a single statement, its kind, its names and its format
    tree            checks the engine's syntax tree: only known tables, functions and clauses pass
    catalogue       readable tables, each with the filter that restricts it to a tenant
    sent_filters    conditions that a client sends beside its statement, rebuilt
    execute         applies the checks and runs the statement under limits

A table is readable only if it has a filter. The engine applies the filter to every read of the table,
however the statement refers to it; `readonly = 1` prevents statements from changing that.
"""

from tracereel_collector.query.user_sql.execute import SqlLimits, SqlQuery, UserSql

__all__ = ["SqlLimits", "SqlQuery", "UserSql"]
