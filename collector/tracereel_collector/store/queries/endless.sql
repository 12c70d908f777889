-- The first row fills the buffers of proxies; the others keep the connection.
SELECT sleepEachRow(0.2), repeat(' ', if(number = 0, 262144, 0)) FROM numbers(1000000000)
