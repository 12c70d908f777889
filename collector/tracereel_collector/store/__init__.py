"""The only room that knows ClickHouse: schema, migrations, inserts of raw bodies, selects."""
