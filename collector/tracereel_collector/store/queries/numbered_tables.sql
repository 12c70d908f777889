-- Tables whose rows have a sequence number, and its column.
SELECT table, name
FROM system.columns
WHERE database = currentDatabase()
  AND name IN ('sequence_number', 'SequenceNumber')
  AND table IN
  (
      SELECT name FROM system.tables
      WHERE database = currentDatabase() AND (engine LIKE '%MergeTree' OR engine = 'Distributed')
  )
