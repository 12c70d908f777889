-- Find the prices of models that were called for the first time. First by their provider, in the files and in
-- the package; then by their name alone, since a proxy may be named as the provider. The name as it is wins
-- over the name with its date written out, without path, and without region, date and version.
INSERT INTO price_names
WITH
    called AS
    (
        SELECT
            TenantId,
            Provider,
            Model,
            lower(if(Provider = '', '-', toString(Provider))) AS seller,
            lower(toString(Model)) AS name,
            if(position(name, '/') > 0, substringIndex(name, '/', 1), '') AS vendor,
            arrayDistinct([
                name,
                replaceRegexpAll(name, '-(20[0-9]{2})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])(-|:|$$)',
                    '-\\1-\\2-\\3\\4'),
                replaceRegexpOne(name, '^.*/', ''),
                replaceRegexpOne(replaceRegexpOne(
                    name,
                    '^(.*/)?((us|eu|apac|global)\\.)?((anthropic|amazon|meta|mistral|cohere|deepseek)\\.)?', ''),
                    '(-v[0-9]+:[0-9]+)?([-@]([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|latest)(-v[0-9]+:[0-9]+)?)?$$', '')
            ]) AS names
        FROM
        (
            SELECT DISTINCT TenantId, Provider, Model
            FROM model_usage
            WHERE (TenantId, Provider, Model) NOT IN (
                SELECT TenantId, Provider, Model FROM price_names
                WHERE Revision = (SELECT max(Revision) FROM model_prices)
            )
            ORDER BY TenantId, Provider, Model
            LIMIT {names:UInt32}
        )
    ),
    -- Whose models these may be: by the name of the provider, by the path, by the name of the model.
    (
        SELECT mapFromArrays(groupArray(concat(Scope, '\t', text)), groupArray(owner))
        FROM
        (
            SELECT r.Scope AS Scope, t.text AS text, argMin(toString(r.PricedProvider), r.Position) AS owner
            FROM
            (
                SELECT DISTINCT asked.1 AS Scope, asked.2 AS text, key
                FROM called
                ARRAY JOIN arrayConcat([('provider', seller), ('provider', vendor)],
                    arrayMap(n -> ('family', n), names)) AS asked
                ARRAY JOIN ['', asked.2] AS key
            ) AS t
            INNER JOIN current_price_rules AS r ON r.Scope = t.Scope AND r.Equals = t.key
            WHERE $price_rule_holds
            GROUP BY Scope, text
        )
    ) AS owners
SELECT
    (SELECT max(Revision) FROM model_prices) AS Revision,
    c.TenantId AS TenantId,
    c.Provider AS Provider,
    c.Model AS Model,
    m.found.1 AS Origin,
    m.found.2 AS PricedProvider,
    m.found.3 AS PricedModel
FROM called AS c
LEFT JOIN
(
    SELECT
        t.Provider AS Provider,
        t.Model AS Model,
        argMin((if(t.Scope = 'file', 'file', 'package'), toString(r.PricedProvider), r.PricedModel),
            (t.choice, r.Prefix != '' AND t.Scope = 'file', t.at, r.Position)) AS found
    FROM
    (
        SELECT Provider, Model, asked.1 AS choice, asked.2 AS Scope, asked.3 AS Owner, text, at, key
        FROM called
        ARRAY JOIN names AS text, arrayEnumerate(names) AS at
        ARRAY JOIN [
            (1, 'file', seller),
            (2, 'model', owners[concat('provider\t', seller)]),
            (3, 'file', '-'),
            (4, 'model', owners[concat('provider\t', vendor)]),
            (5, 'model', owners[concat('family\t', text)])
        ] AS asked
        ARRAY JOIN ['', text] AS key
        WHERE Owner != ''
    ) AS t
    INNER JOIN current_price_rules AS r
        ON r.Scope = t.Scope AND lower(toString(r.Provider)) = t.Owner AND r.Equals = t.key
    WHERE $price_rule_holds
    GROUP BY Provider, Model
) AS m ON m.Provider = c.Provider AND m.Model = c.Model
