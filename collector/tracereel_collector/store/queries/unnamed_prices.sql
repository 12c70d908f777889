-- Called models whose price was not looked for since the prices changed, and those for which it was.
SELECT
    (
        SELECT uniqExact(TenantId, Provider, Model) FROM model_usage
        WHERE (TenantId, Provider, Model) NOT IN (
            SELECT TenantId, Provider, Model FROM price_names
            WHERE Revision = (SELECT max(Revision) FROM model_prices)
        )
    ) AS waiting,
    (SELECT count() FROM price_names WHERE Revision = (SELECT max(Revision) FROM model_prices)) AS known
