-- Always later than the tenant's earlier rules, even if the clock was set back.
INSERT INTO retention_rules
SELECT {tenant:String}, {days:Nullable(UInt32)},
    greatest(
        fromUnixTimestamp64Nano({now:Int64}, 'UTC'),
        (SELECT max(set_at) + toIntervalNanosecond(1) FROM retention_rules WHERE tenant = {tenant:String})
    ),
    {by:String}
