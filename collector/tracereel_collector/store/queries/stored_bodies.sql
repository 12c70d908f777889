-- Which of some bodies have rows, by the number of a record and its arrival in nanoseconds: collectors
-- that share a store give the same numbers.
SELECT DISTINCT {number:Identifier}, toUnixTimestamp64Nano({arrival:Identifier})
FROM {table:Identifier}
WHERE {arrival:Identifier} >= fromUnixTimestamp64Nano({first:Int64}) - INTERVAL 1 SECOND
  AND {arrival:Identifier} <= fromUnixTimestamp64Nano({last:Int64}) + INTERVAL 1 SECOND
  AND {number:Identifier} IN {numbers:Array(UInt64)}
