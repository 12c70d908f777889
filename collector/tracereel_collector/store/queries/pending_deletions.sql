-- Number of deletions of runs from a table that this node has not finished.
SELECT count()
FROM system.mutations
WHERE database = currentDatabase() AND table = {table:String}
  AND NOT is_done AND position(command, 'trace_id') > 0
