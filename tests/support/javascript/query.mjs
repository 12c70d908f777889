// Reads with ClickHouse's own client, in the ways people use it, and prints what came as one line of JSON.
import { createClient } from '@clickhouse/client'

const [url, pathname, password] = process.argv.slice(2)
const log = { LoggerClass: class { trace() {} debug() {} info() {} warn() {} error() {} } }
const client = createClient({ url, pathname, username: 'default', password, log })
const said = async (query) => {
  try {
    await client.command({ query })
    return null
  } catch (error) {
    return `${error.code} ${error.type}`
  }
}

const bound = await client.query({
  query: 'SELECT event_id, tenant FROM agent_events WHERE event_id = {id:String}',
  query_params: { id: 'alphas' },
  format: 'JSONEachRow',
})
const streamed = []
const stream = await client.query({ query: 'SELECT event_id FROM agent_events', format: 'JSONEachRow' })
for await (const rows of stream.stream()) rows.forEach((row) => streamed.push(row.json()))
console.log(JSON.stringify({
  ping: (await client.ping()).success,
  bound: await bound.json(),
  streamed,
  dropped: await said('DROP TABLE agent_events'),
  reached: await said("SELECT * FROM url('http://127.0.0.1:1/', 'CSV')"),
}))
await client.close()
