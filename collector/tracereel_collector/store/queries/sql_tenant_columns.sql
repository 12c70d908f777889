-- Tables and views with a tenant column, and its name.
SELECT table, name FROM system.columns WHERE database = currentDatabase() AND name IN ('tenant', 'TenantId')
