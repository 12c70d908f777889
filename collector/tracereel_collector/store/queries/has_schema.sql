-- Whether a database has a schema of ours, or at least its beginning.
SELECT name FROM system.tables WHERE database = {database:String} AND name IN ('schema_cluster', 'schema_migrations')
