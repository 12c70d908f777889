-- Which of some bodies have rows, by the number of their first record.
SELECT DISTINCT {number:Identifier}
FROM {table:Identifier}
WHERE {arrival:Identifier} >= fromUnixTimestamp64Nano({first:Int64}) - INTERVAL 1 SECOND
  AND {arrival:Identifier} <= fromUnixTimestamp64Nano({last:Int64}) + INTERVAL 1 SECOND
  AND {number:Identifier} IN {numbers:Array(UInt64)}
