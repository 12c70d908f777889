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
-- Cases: prices by second of the day and size of the prompt, in this order; the last that holds applies.
-- Empty, if the price depends on neither.
CREATE TABLE IF NOT EXISTS model_prices$local
(
    Revision UInt64,
    Digest String,
    Origin LowCardinality(String) COMMENT 'file, or package: genai-prices',
    Provider LowCardinality(String) COMMENT 'as the file or the package calls it',
    Model String,
    ValidFrom DateTime64(9, 'UTC'),
    Input Float64 COMMENT 'US dollars for a million tokens, of the first case',
    Output Float64,
    CacheRead Float64,
    CacheWrite Float64,
    Cases Array(Tuple(second UInt32, above Int64, input Float64, cache_read Float64, cache_write Float64, output Float64)),
    PriceSource LowCardinality(String)
)
ENGINE = ${replicated}MergeTree($replica)
ORDER BY (Revision, Provider, Model, ValidFrom)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS model_prices AS model_prices$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'model_prices$local', cityHash64(Model));

-- How the price of a called model is found: see `store/price_rows.py`.
CREATE TABLE IF NOT EXISTS price_rules$local
(
    Revision UInt64,
    Scope LowCardinality(String),
    Provider LowCardinality(String),
    Position UInt32,
    Equals String,
    Prefix String,
    Suffix String,
    Contains Array(String),
    Patterns Array(String),
    Against Array(String),
    PricedProvider LowCardinality(String),
    PricedModel String
)
ENGINE = ${replicated}MergeTree($replica)
ORDER BY (Revision, Scope, Provider, Equals, Position)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS price_rules AS price_rules$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'price_rules$local', cityHash64(Provider, Equals));

CREATE VIEW IF NOT EXISTS current_prices AS
SELECT * FROM model_prices WHERE Revision = (SELECT max(Revision) FROM model_prices);

CREATE VIEW IF NOT EXISTS current_price_rules AS
SELECT * FROM price_rules WHERE Revision = (SELECT max(Revision) FROM model_prices);

-- Whose price each called model has, since a revision; empty where none is known. Filled by the collector
-- with `queries/name_prices.sql` when a model is called for the first time.
CREATE TABLE IF NOT EXISTS price_names$local
(
    Revision UInt64,
    TenantId LowCardinality(String),
    Provider LowCardinality(String),
    Model LowCardinality(String),
    Origin LowCardinality(String),
    PricedProvider LowCardinality(String),
    PricedModel String
)
ENGINE = ${replicated}ReplacingMergeTree($replica)
ORDER BY (Revision, TenantId, Provider, Model)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS price_names AS price_names$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'price_names$local', cityHash64(Model));

-- Each model that was called, and the prices it had, if we know any.
CREATE VIEW IF NOT EXISTS priced_models AS
SELECT
    m.Provider AS Provider,
    m.Model AS Model,
    p.Model AS PricedAs,
    p.Provider AS PricedBy,
    p.PriceSource AS PriceSource,
    p.ValidFrom AS ValidFrom,
    p.Input AS Input,
    p.Output AS Output,
    p.CacheRead AS CacheRead,
    p.CacheWrite AS CacheWrite,
    p.Cases AS Cases
FROM
(
    SELECT DISTINCT Provider, Model, Origin, PricedProvider, PricedModel
    FROM price_names
    WHERE PricedModel != '' AND Revision = (SELECT max(Revision) FROM model_prices)
) AS m
INNER JOIN current_prices AS p
    ON p.Origin = m.Origin AND p.Provider = m.PricedProvider AND p.Model = m.PricedModel;

-- Every call of a model once, with what it cost: as the sender said, else by the price of the day, else
-- unknown. Agents and workflows are not here, nor is a span of a call that another span
-- describes too, once its trace is settled: what is summed up from here is counted once.
CREATE VIEW IF NOT EXISTS model_calls AS
SELECT
    c.* EXCEPT (CostUsd),
    multiIf(
        isNotNull(c.CostUsd), c.CostUsd,
        p.PricedAs = '' OR isNull(c.PromptTokens) OR (c.CallKind = 'llm' AND isNull(c.CompletionTokens)), NULL,
        $calculated_cost
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
