-- The tables and views whose rows say which tenant they belong to.
SELECT table, name FROM system.columns WHERE database = currentDatabase() AND name IN ('tenant', 'TenantId')
