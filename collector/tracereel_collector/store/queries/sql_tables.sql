-- All tables and views of all databases, with their engines.
SELECT database, name, engine FROM system.tables
