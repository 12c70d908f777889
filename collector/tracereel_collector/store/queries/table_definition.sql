-- Engine of a table with its arguments, keys and settings.
SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = {table:String}
