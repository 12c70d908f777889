-- Which models were called, and how often without a cost of the sender's: small, whatever the traffic.
CREATE TABLE IF NOT EXISTS model_usage$local
(
    TenantId LowCardinality(String),
    Day Date,
    Provider LowCardinality(String),
    Model LowCardinality(String),
    Calls UInt64,
    CallsWithoutCost UInt64
)
ENGINE = ${replicated}SummingMergeTree($replica)
PARTITION BY toYYYYMM(Day)
ORDER BY (TenantId, Day, Provider, Model)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS model_usage AS model_usage$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'model_usage$local', cityHash64(Model));

CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_model_usage TO model_usage$local AS
SELECT
    TenantId,
    toDate(IngestedAt) AS Day,
    Provider,
    if(ModelServed = '', ModelRequested, ModelServed) AS Model,
    count() AS Calls,
    countIf(isNull(CostUsd) AND isNotNull(TotalTokens)) AS CallsWithoutCost
FROM otel_spans$local
WHERE CallKind IN $direct_kinds
GROUP BY TenantId, Day, Provider, Model;

CREATE MATERIALIZED VIEW IF NOT EXISTS events_to_model_usage TO model_usage$local AS
SELECT
    tenant AS TenantId,
    toDate(ingested_at) AS Day,
    $told_provider AS Provider,
    if(llm_model = '', JSONExtractString(payload, 'llm_model_requested'), llm_model) AS Model,
    count() AS Calls,
    countIf(isNull(llm_cost_usd) AND isNotNull(coalesce(llm_tokens_used, llm_prompt_tokens))) AS CallsWithoutCost
FROM agent_events$local
WHERE event_type = $own_client_type AND $told_closes AND $told_kind IN $direct_kinds
GROUP BY TenantId, Day, Provider, Model;

-- The price table of each start that brought another one; the newest revision is in force.
CREATE TABLE IF NOT EXISTS model_prices$local
(
    Revision UInt64,
    Digest String,
    Provider LowCardinality(String),
    Model String,
    ValidFrom DateTime64(9, 'UTC'),
    Input Float64,
    Output Float64,
    CacheRead Nullable(Float64),
    CacheWrite Nullable(Float64),
    PriceSource LowCardinality(String)
)
ENGINE = ${replicated}MergeTree($replica)
ORDER BY (Revision, Provider, Model, ValidFrom)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS model_prices AS model_prices$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'model_prices$local', cityHash64(Model));

CREATE VIEW IF NOT EXISTS current_prices AS
SELECT * FROM model_prices WHERE Revision = (SELECT max(Revision) FROM model_prices);

-- Each model that was called, and the prices it had, if we know any. The name as it is wins over the
-- name without path, region and date, and that over a prefix; then the longest.
CREATE VIEW IF NOT EXISTS priced_models AS
SELECT
    m.Provider AS Provider,
    m.Model AS Model,
    p.Model AS PricedAs,
    p.ValidFrom AS ValidFrom,
    p.Input AS Input,
    p.Output AS Output,
    p.CacheRead AS CacheRead,
    p.CacheWrite AS CacheWrite
FROM
(
    SELECT
        k.Provider AS Provider,
        k.Model AS Model,
        argMax(c.Model, (c.Model = k.Model, c.Model = k.Name, length(c.Model))) AS PricedAs
    FROM
    (
        SELECT DISTINCT
            Provider,
            Model,
            replaceRegexpOne(replaceRegexpOne(
                lower(toString(Model)),
                '^(.*/)?((us|eu|apac|global)\\.)?((anthropic|amazon|meta|mistral|cohere|deepseek)\\.)?', ''),
                '(-v[0-9]+:[0-9]+)?([-@]([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|latest)(-v[0-9]+:[0-9]+)?)?$$', '')
                AS Name
        FROM model_usage
    ) AS k
    INNER JOIN (SELECT DISTINCT Provider, Model FROM current_prices) AS c
        ON c.Provider = if(k.Provider = '', '-', k.Provider)
    WHERE c.Model IN (k.Model, k.Name)
        OR (endsWith(c.Model, '*') AND startsWith(k.Model, trimRight(c.Model, '*')))
    GROUP BY Provider, Model
) AS m
INNER JOIN current_prices AS p
    ON p.Model = m.PricedAs AND p.Provider = if(m.Provider = '', '-', m.Provider);

-- Every call of a model once, with what it cost: as the sender said, else by the price of the day, else
-- unknown. Agents and workflows are not here, nor is a span that tells of a call that another span tells
-- of too, once its trace is settled: what is summed up from here is counted once.
CREATE VIEW IF NOT EXISTS model_calls AS
SELECT
    c.* EXCEPT (CostUsd),
    multiIf(
        isNotNull(c.CostUsd), c.CostUsd,
        p.PricedAs = '' OR isNull(c.PromptTokens) OR (c.CallKind = 'llm' AND isNull(c.CompletionTokens)), NULL,
        (
            greatest(toFloat64(assumeNotNull(c.PromptTokens)) - ifNull(c.CacheReadTokens, 0)
                - ifNull(c.CacheWriteTokens, 0), 0) * p.Input
            + ifNull(c.CacheReadTokens, 0) * ifNull(p.CacheRead, p.Input)
            + ifNull(c.CacheWriteTokens, 0) * ifNull(p.CacheWrite, p.Input)
            + ifNull(c.CompletionTokens, 0) * p.Output
        ) / 1000000
    ) AS CostUsd,
    multiIf(
        isNotNull(c.CostUsd), 'sent',
        isNull(c.PromptTokens) OR (c.CallKind = 'llm' AND isNull(c.CompletionTokens)), 'no_usage',
        p.PricedAs = '', 'unknown_model',
        'prices'
    ) AS CostSource,
    p.PricedAs AS PricedAs
FROM
(
    SELECT
        TenantId, TraceId, SpanId, ParentSpanId, Timestamp, Duration, ServiceName, SpanName, CallKind,
        Provider, ModelRequested, if(ModelServed = '', ModelRequested, ModelServed) AS Model,
        PromptTokens, CompletionTokens, TotalTokens, CacheReadTokens, CacheWriteTokens, ReasoningTokens,
        CostUsd, AgentName, WorkflowName, SessionId, UserId, FinishReason, ErrorType, FirstTokenMs, ResponseId
    FROM otel_traces
    WHERE CallKind IN $direct_kinds
        AND (TenantId, TraceId, SpanId) NOT IN
            (SELECT TenantId, TraceId, SpanId FROM settled_calls FINAL WHERE Repeated)
) AS c
ASOF LEFT JOIN priced_models AS p
    ON c.Provider = p.Provider AND c.Model = p.Model AND c.Timestamp >= p.ValidFrom;
