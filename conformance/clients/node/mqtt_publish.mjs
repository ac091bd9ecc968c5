// Publishes with MQTT.js: URL VERSION TOPIC COUNT; a line of JSON at the end says what was acknowledged.

import mqtt from 'mqtt'

const [url, version, topic, count] = process.argv.slice(2)
const client = await mqtt.connectAsync(url, { protocolVersion: Number(version), clientId: `js-${version}`, connectTimeout: 20000 })
const sent = []
for (let number = 0; number < Number(count); number += 1) {
  const properties = version === '5' ? { contentType: 'text/plain', userProperties: { unit: 'C' } } : undefined
  sent.push(client.publishAsync(topic, `js ${number}`, { qos: 1, properties }))
}
await Promise.all(sent)
let refused = ''
if (version === '5') await client.publishAsync('nowhere/at/all', 'x', { qos: 1 }).catch(problem => { refused = problem.message })
await client.endAsync()
process.stdout.write(JSON.stringify({ acknowledged: sent.length, refused }) + '\n')
process.exit(0)
