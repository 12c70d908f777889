-- Columns of the system tables `tables`, `columns` and `databases`.
SELECT DISTINCT name FROM system.columns WHERE database = 'system' AND table IN ('tables', 'columns', 'databases')
