-- Everything in the database that has a name, and what it is.
SELECT name, engine FROM system.tables WHERE database = currentDatabase()
