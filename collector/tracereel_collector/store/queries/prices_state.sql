-- Fingerprint that changes when a new model is called or the prices change.
SELECT
    (SELECT max(Revision) FROM model_prices),
    (SELECT (uniqExact(Provider, Model), sum(DISTINCT cityHash64(Provider, Model))) FROM model_usage)
