// kafka-connect-client: what its users do, step by step, with the worker's port in the second argument, a file of
// the lines "one" and "two" in the third, and the broker named in the first.
import assert from 'node:assert/strict'

import connectClient from 'kafka-connect-client'
import kafkajs from 'kafkajs'

import { unique, until, walk } from './steps.mjs'

const { KafkaConnectClient } = connectClient
const { Kafka, logLevel } = kafkajs
const [broker, port, file] = process.argv.slice(2)

const client = new KafkaConnectClient({ host: '127.0.0.1', port: Number(port) })
const kafka = new Kafka({ clientId: 'walk', brokers: [broker], logLevel: logLevel.NOTHING })
const CLASS = 'org.apache.kafka.connect.file.FileStreamSourceConnector'

function config (more) {
  return { 'connector.class': CLASS, topic: unique('lines'), file, ...more }
}

/** A file source that runs, and its topic: [connector, topic, name]. */
async function running () {
  const [name, given] = [unique('source'), config()]
  const admin = kafka.admin()
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic: given.topic }] })
  await admin.disconnect()
  const { status, data } = await client.createConnector(name, given)
  assert.deepEqual([status, data.name, data.config], [201, name, { ...given, name }])
  const connector = client.connector(name)
  await inState(connector, 'RUNNING', 1)
  return [connector, given.topic, name]
}

/** Waits until a connector and all of so many tasks are in a state. */
async function inState (connector, state, tasks) {
  await until(async () => {
    const data = await connector.getStatus().then(answer => answer.data, () => undefined) // it has none at first
    return data && data.connector.state === state && data.tasks.length === tasks && data.tasks.every(each => each.state === state)
  }, `${connector.name} ${state}`)
}

async function refusal (promise) {
  try {
    await promise
  } catch (error) {
    return [error.response?.status, error.response?.data]
  }
  return assert.fail('no error')
}

async function valuesOf (topic, count) {
  const [consumer, found] = [kafka.consumer({ groupId: unique('reader') }), []]
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => { found.push(message.value.toString()) } })
  await until(() => found.length >= count, `${count} records`)
  await consumer.disconnect()
  return found
}

const steps = {
  'asks for the cluster': async () => {
    const { data } = await client.getCluster()
    assert.deepEqual(Object.keys(data).sort(), ['commit', 'kafka_cluster_id', 'version'])
  },
  'lists plugins': async () => {
    const classes = ({ data }) => data.map(each => each.class)
    assert.ok(classes(await client.getConnectorPlugins()).includes(CLASS))
    const all = classes(await client.getConnectorPlugins({ connectorsOnly: false }))
    assert.ok(all.includes('org.apache.kafka.connect.json.JsonConverter'))
  },
  'validates a configuration': async () => {
    const { data } = await client.validateConnectorConfig('FileStreamSource', { 'connector.class': CLASS })
    const wrong = data.configs.filter(each => each.value.errors.length).map(each => each.value.name)
    assert.deepEqual([wrong.sort(), data.error_count], [['name', 'topic'], 2])
  },
  'creates a connector, whose records arrive': async () => {
    const [connector, topic, name] = await running()
    assert.deepEqual(await valuesOf(topic, 2), ['one', 'two'])
    const { data } = await connector.get()
    assert.deepEqual([data.name, data.type, data.tasks], [name, 'source', [{ connector: name, task: 0 }]])
    await until(async () => (await connector.getOffsets()).data.offsets.length, 'its offset')
    const [{ partition, offset }] = (await connector.getOffsets()).data.offsets
    assert.deepEqual([partition, offset.position], [{ filename: file }, 8])
  },
  'lists connectors, with what is known of them': async () => {
    const [, , name] = await running()
    assert.ok((await client.getConnectors()).data.includes(name))
    assert.equal((await client.getConnectors({ expand: 'status' })).data[name].status.connector.state, 'RUNNING')
    assert.equal((await client.getConnectors({ expand: 'info' })).data[name].info.type, 'source')
  },
  'is refused a name that is taken, a class that is not there, and what is wrong': async () => {
    const [connector, , name] = await running()
    assert.equal((await refusal(client.createConnector(name, config())))[0], 409)
    assert.equal((await refusal(client.createConnector(unique('none'), config({ 'connector.class': 'NoSuch' }))))[0], 400)
    const [status, told] = await refusal(connector.updateConfig(config({ topic: '' })))
    assert.deepEqual([status, told.error_code], [400, 400])
    assert.match(told.message, /contains the following 1 error/)
    assert.equal((await refusal(client.connector(unique('none')).getStatus()))[0], 404)
  },
  'creates and changes by configuration': async () => {
    const [name, given] = [unique('source'), config()]
    const connector = client.connector(name)
    assert.equal((await connector.create(given)).status, 201)
    await inState(connector, 'RUNNING', 1)
    assert.equal((await connector.updateConfig({ ...given, 'batch.size': '7' })).status, 200)
    assert.deepEqual((await connector.getConfig()).data, { ...given, 'batch.size': '7', name })
    await inState(connector, 'RUNNING', 1)
  },
  'pauses, resumes, stops': async () => {
    const [connector] = await running()
    assert.equal((await connector.pause()).status, 202)
    await inState(connector, 'PAUSED', 1)
    assert.equal((await connector.resume()).status, 202)
    await inState(connector, 'RUNNING', 1)
    assert.equal((await connector.stop()).status, 204)
    await inState(connector, 'STOPPED', 0)
    await connector.resume()
    await inState(connector, 'RUNNING', 1)
  },
  'restarts a connector and a task': async () => {
    const [connector] = await running()
    assert.equal((await connector.restart()).status, 204)
    const [task] = (await connector.getTasks()).data
    assert.equal(task.id.task, 0)
    assert.equal((await connector.restartTask(0)).status, 204)
    await inState(connector, 'RUNNING', 1)
    // what inState saw may have been its state before the restart
    await until(async () => (await connector.getTaskStatus(0)).data.state === 'RUNNING', 'a restarted task')
    assert.equal((await refusal(connector.restartTask(9)))[0], 404)
  },
  'asks for topics, and resets them': async () => {
    const [connector, topic, name] = await running()
    // The client takes an answer apart before it is parsed, so getTopics fails on every server.
    const topics = async () => (await client.axios.get(`connectors/${name}/topics`)).data[name].topics
    await until(async () => (await topics()).length, 'its topics')
    assert.deepEqual(await topics(), [topic])
    assert.equal((await connector.resetTopics()).status, 202)
    await until(async () => (await topics()).length === 0, 'no topics')
  },
  'alters and resets offsets of a stopped connector': async () => {
    const [connector, topic] = await running()
    await valuesOf(topic, 2)
    const offsets = [{ partition: { filename: file }, offset: { position: 4 } }]
    assert.equal((await refusal(connector.alterOffsets(offsets)))[0], 400)
    await connector.stop()
    await inState(connector, 'STOPPED', 0)
    assert.match((await connector.alterOffsets(offsets)).data.message, /altered successfully/)
    assert.deepEqual((await connector.getOffsets()).data, { offsets })
    await connector.resume()
    assert.deepEqual(await valuesOf(topic, 3), ['one', 'two', 'two'])
    await connector.stop()
    await inState(connector, 'STOPPED', 0)
    assert.match((await connector.resetOffsets()).data.message, /reset successfully/)
    assert.deepEqual((await connector.getOffsets()).data, { offsets: [] })
  },
  'deletes a connector': async () => {
    const [connector, , name] = await running()
    assert.equal((await connector.delete()).status, 204)
    assert.equal((await refusal(connector.get()))[0], 404)
    assert.ok(!(await client.getConnectors()).data.includes(name))
  }
}

await walk(steps)
