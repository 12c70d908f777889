-- Active parts of a table, ordered by partition.
SELECT partition_id, name, rows, data_uncompressed_bytes
FROM system.parts
WHERE database = currentDatabase() AND table = {table:String} AND active AND rows > 0
ORDER BY partition_id, name
