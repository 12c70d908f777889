-- Inserts go to these tables. They are detached while views change, so that no insert passes a view that
-- is away; what views read (`…_raw`) stays, because a view cannot be made without it.
CREATE TABLE IF NOT EXISTS events_in AS events_raw ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS events_in_to_events_raw TO events_raw AS
SELECT * FROM events_in;

CREATE TABLE IF NOT EXISTS heartbeats_in AS heartbeats_raw ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS heartbeats_in_to_heartbeats_raw TO heartbeats_raw AS
SELECT * FROM heartbeats_in;

CREATE TABLE IF NOT EXISTS scores_in AS scores_raw ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS scores_in_to_scores_raw TO scores_raw AS
SELECT * FROM scores_in;

CREATE TABLE IF NOT EXISTS otlp_traces_in AS otlp_traces_raw ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_traces_in_to_otlp_traces_raw TO otlp_traces_raw AS
SELECT * FROM otlp_traces_in;

CREATE TABLE IF NOT EXISTS otlp_logs_in AS otlp_logs_raw ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_logs_in_to_otlp_logs_raw TO otlp_logs_raw AS
SELECT * FROM otlp_logs_in;

CREATE TABLE IF NOT EXISTS otlp_metrics_in AS otlp_metrics_raw ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_metrics_in_to_otlp_metrics_raw TO otlp_metrics_raw AS
SELECT * FROM otlp_metrics_in;
