-- A row now and then, so that proxies keep the connection.
SELECT sleepEachRow(0.2) FROM numbers(1000000000)
