-- Content of some events, by number.
SELECT sequence_number, content
FROM event_content
WHERE tenant = {tenant:String} AND conversation IN {conversations:Array(String)}
    AND sequence_number IN {numbers:Array(UInt64)}
LIMIT 1 BY sequence_number
