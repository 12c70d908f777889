-- Changes whenever a model is called that was not called before, or other prices are in force.
SELECT
    (SELECT max(Revision) FROM model_prices),
    (SELECT (uniqExact(Provider, Model), sum(DISTINCT cityHash64(Provider, Model))) FROM model_usage)
