-- Engine of a table.
SELECT engine
FROM system.tables
WHERE database = currentDatabase() AND name = {table:String}
