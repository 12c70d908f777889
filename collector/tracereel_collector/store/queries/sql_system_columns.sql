-- The columns of the engine's own lists.
SELECT DISTINCT name FROM system.columns WHERE database = 'system' AND table IN ('tables', 'columns', 'databases')
