"""The collector: takes events and OTLP, keeps them in ClickHouse, answers what happened."""
