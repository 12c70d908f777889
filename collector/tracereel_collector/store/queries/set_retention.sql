INSERT INTO retention_rules
SELECT {tenant:String}, {days:Nullable(UInt32)}, now64(9), {by:String}
