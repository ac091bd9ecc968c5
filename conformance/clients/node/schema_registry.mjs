// @kafkajs/confluent-schema-registry: what its users do, step by step, with the registry named in the second
// argument and the broker named in the first.
import assert from 'node:assert/strict'

import schemaRegistry from '@kafkajs/confluent-schema-registry'
import kafkajs from 'kafkajs'

import { unique, until, walk } from './steps.mjs'

const { COMPATIBILITY, SchemaRegistry, SchemaType } = schemaRegistry
const { Kafka, Partitioners, logLevel } = kafkajs
const [broker, host] = process.argv.slice(2)

const kafka = new Kafka({ clientId: 'walk', brokers: [broker], logLevel: logLevel.NOTHING })

/** A client that has asked the registry for nothing yet. */
function client (options) {
  return new SchemaRegistry({ host, clientId: 'walk', retry: { retries: 0 } }, options)
}

const { AVRO, JSON: JSON_SCHEMA, PROTOBUF } = SchemaType

function avro (schema, references) {
  return { type: AVRO, schema: JSON.stringify(schema), references }
}

function record (name, fields) {
  return { type: 'record', namespace: 'walk', name, fields: fields.map(([field, type, more]) => ({ name: field, type, ...more })) }
}

const order = record('Order', [['id', 'long'], ['item', 'string']])
const orderWithNote = record('Order', [['id', 'long'], ['item', 'string'], ['note', ['null', 'string'], { default: null }]])
const orderWithCount = record('Order', [['id', 'long'], ['item', 'string'], ['count', 'int']])

const person = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  $id: 'https://walk.example/person.json',
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer', minimum: 0 } },
  required: ['name']
}

const reading = `syntax = "proto3";
package walk;
message Reading {
  string sensor = 1;
  double value = 2;
}`

/** Registers under a subject of its own: [id, subject, client]. */
async function registered (schema, options = {}, opening = undefined) {
  const [subject, registry] = [unique('walk'), client(opening)]
  const { id } = await registry.register(schema, { subject, ...options })
  return [id, subject, registry]
}

async function status (promise) {
  try {
    await promise
  } catch (error) {
    return [error.status, error.message]
  }
  return assert.fail('no error')
}

/** What the registry says, without the client. */
async function ask (path, options) {
  const response = await fetch(`${host}${path}`, {
    headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' }, ...options
  })
  return [response.status, await response.json()]
}

const steps = {
  'registers an Avro schema, and again': async () => {
    const [id, subject, registry] = await registered(avro(order))
    assert.ok(Number.isInteger(id) && id > 0)
    assert.equal((await registry.register(avro(order), { subject })).id, id)
    assert.equal((await client().register(avro(order), { subject: unique('walk') })).id, id)
  },
  'names the subject after the record': async () => {
    const name = unique('Named').replace('-', '')
    const { id } = await client().register({ ...order, name })
    assert.equal(await client().getLatestSchemaId(`walk.${name}`), id)
  },
  'sets the compatibility of a new subject': async () => {
    const [, subject] = await registered(avro(order), { compatibility: COMPATIBILITY.FULL })
    assert.deepEqual(await ask(`/config/${subject}`), [200, { compatibilityLevel: 'FULL' }])
  },
  'refuses to go on with another compatibility': async () => {
    const [, subject, registry] = await registered(avro(order), { compatibility: COMPATIBILITY.FULL })
    await assert.rejects(
      registry.register(avro(orderWithNote), { subject, compatibility: COMPATIBILITY.NONE }),
      error => error.name === 'ConfluentSchemaRegistryCompatibilityError'
    )
  },
  'evolves a schema, by versions': async () => {
    const [first, subject, registry] = await registered(avro(order))
    const { id: second } = await registry.register(avro(orderWithNote), { subject })
    assert.notEqual(second, first)
    assert.equal(await registry.getLatestSchemaId(subject), second)
    assert.deepEqual([await registry.getRegistryId(subject, 1), await registry.getRegistryId(subject, 2)], [first, second])
    assert.equal(await registry.getRegistryIdBySchema(subject, avro(order)), first)
  },
  'is refused an incompatible schema': async () => {
    const [, subject, registry] = await registered(avro(order))
    const [code, message] = await status(registry.register(avro(orderWithCount), { subject }))
    assert.equal(code, 409)
    assert.match(message, /incompatible/)
  },
  'is refused what is not there': async () => {
    const registry = client()
    assert.equal((await status(registry.getLatestSchemaId(unique('missing'))))[0], 404)
    await assert.rejects(registry.getRegistryIdBySchema(unique('missing'), avro(order)), { name: 'ConfluentSchemaRegistryError' })
    const frame = Buffer.concat([Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]), Buffer.from('x')])
    assert.equal((await status(registry.decode(frame)))[0], 404)
  },
  'encodes and decodes Avro': async () => {
    const [id, , registry] = await registered(avro(order))
    const payload = await registry.encode(id, { id: 7, item: 'tea' })
    assert.deepEqual([payload[0], payload.readInt32BE(1)], [0, id])
    assert.deepEqual({ ...await client().decode(payload) }, { id: 7, item: 'tea' })
    await assert.rejects(registry.encode(id, { id: 'seven' }), { name: 'ConfluentSchemaRegistryValidationError' })
  },
  'decodes Avro with a schema of the reader': async () => {
    const [id, , registry] = await registered(avro(order))
    const payload = await registry.encode(id, { id: 7, item: 'tea' })
    const found = await client().decode(payload, { [AVRO]: { readerSchema: orderWithNote } })
    assert.deepEqual({ ...found }, { id: 7, item: 'tea', note: null })
  },
  'encodes and decodes JSON Schema': async () => {
    const [id, subject, registry] = await registered({ type: JSON_SCHEMA, schema: JSON.stringify(person) })
    const payload = await registry.encode(id, { name: 'Ada', age: 36 })
    assert.deepEqual(await client().decode(payload), { name: 'Ada', age: 36 })
    await assert.rejects(registry.encode(id, { name: 'Ada', age: -1 }), { name: 'ConfluentSchemaRegistryValidationError' })
    const [code, { schemaType }] = await ask(`/subjects/${subject}/versions/1`)
    assert.deepEqual([code, schemaType], [200, 'JSON'])
  },
  'encodes and decodes Protobuf': async () => {
    const [id, subject, registry] = await registered({ type: PROTOBUF, schema: reading })
    const payload = await registry.encode(id, { sensor: 'roof', value: 21.5 })
    assert.deepEqual({ ...await client().decode(payload) }, { sensor: 'roof', value: 21.5 })
    const [code, { schemaType }] = await ask(`/subjects/${subject}/versions/latest`)
    assert.deepEqual([code, schemaType], [200, 'PROTOBUF'])
  },
  'refers from Avro to Avro': async () => {
    const [, subject] = await registered(avro(order))
    const basket = record('Basket', [['owner', 'string'], ['orders', { type: 'array', items: 'walk.Order' }]])
    const [id, , registry] = await registered(avro(basket, [{ name: 'walk.Order', subject, version: 1 }]))
    const value = { owner: 'Ada', orders: [{ id: 7, item: 'tea' }] }
    const found = await client().decode(await registry.encode(id, value))
    assert.deepEqual(JSON.parse(JSON.stringify(found)), value)
    assert.deepEqual(await ask(`/subjects/${subject}/versions/1/referencedby`), [200, [id]])
  },
  'refers from JSON Schema to JSON Schema': async () => {
    const [, subject] = await registered({ type: JSON_SCHEMA, schema: JSON.stringify(person) })
    const team = { $id: 'https://walk.example/team.json', type: 'object', properties: { lead: { $ref: person.$id } } }
    const [id, , registry] = await registered({
      type: JSON_SCHEMA, schema: JSON.stringify(team), references: [{ name: person.$id, subject, version: 1 }]
    })
    assert.deepEqual(await client().decode(await registry.encode(id, { lead: { name: 'Ada' } })), { lead: { name: 'Ada' } })
    await assert.rejects(registry.encode(id, { lead: { age: 3 } }), { name: 'ConfluentSchemaRegistryValidationError' })
  },
  'refers from Protobuf to Protobuf': async () => {
    const [, subject] = await registered({ type: PROTOBUF, schema: reading })
    const schema = `syntax = "proto3";
package walk;
import "reading.proto";
message Report {
  string station = 1;
  repeated walk.Reading readings = 2;
}`
    const [id, , registry] = await registered(
      { type: PROTOBUF, schema, references: [{ name: 'reading.proto', subject, version: 1 }] },
      {},
      { [PROTOBUF]: { messageName: 'Report' } }
    )
    const value = { station: 'roof', readings: [{ sensor: 'a', value: 1.5 }] }
    const found = await client({ [PROTOBUF]: { messageName: 'Report' } }).decode(await registry.encode(id, value))
    assert.deepEqual(JSON.parse(JSON.stringify(found)), value)
  },
  'is refused a reference to nothing': async () => {
    const basket = record('Basket', [['orders', { type: 'array', items: 'walk.Order' }]])
    const references = [{ name: 'walk.Order', subject: unique('missing'), version: 1 }]
    const [code] = await ask(`/subjects/${unique('walk')}/versions`, {
      method: 'POST', body: JSON.stringify({ schema: JSON.stringify(basket), references })
    })
    assert.equal(code, 422)
  },
  'produces and consumes through the broker': async () => {
    const [topic, registry] = [unique('walk'), client()]
    const { id } = await registry.register(avro(order), { subject: `${topic}-value` })
    const admin = kafka.admin()
    await admin.createTopics({ waitForLeaders: true, topics: [{ topic }] })
    const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
    await producer.connect()
    const values = [{ id: 1, item: 'tea' }, { id: 2, item: 'milk' }]
    const messages = await Promise.all(values.map(async value => ({ value: await registry.encode(id, value) })))
    await producer.send({ topic, messages })
    await producer.disconnect()
    const [consumer, reader, found] = [kafka.consumer({ groupId: unique('reader') }), client(), []]
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ message }) => { found.push({ ...await reader.decode(message.value) }) }
    })
    await until(() => found.length === 2, 'both orders')
    await consumer.disconnect()
    assert.deepEqual(found, values)
  }
}

await walk(steps)
