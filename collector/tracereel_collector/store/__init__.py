"""ClickHouse access, the only package with it: schema, migrations, inserts of bodies, queries."""
