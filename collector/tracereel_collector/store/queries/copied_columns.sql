SELECT name FROM system.columns
WHERE database = currentDatabase() AND table = {table:String} AND default_kind NOT IN ('ALIAS', 'MATERIALIZED')
ORDER BY position
