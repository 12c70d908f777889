SELECT name FROM system.tables WHERE database = currentDatabase() AND name IN {names:Array(String)}
