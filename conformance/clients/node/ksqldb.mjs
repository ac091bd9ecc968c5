// ksqldb-client: what its users do over HTTP/2, step by step, with the SQL server's port in the second argument.
//
// It takes each part of an answer for one row, and counts a body's letters where HTTP counts bytes: rows are
// written one at a time here, in ASCII.
import assert from 'node:assert/strict'

import KsqldbClient from 'ksqldb-client'

import { unique, until, walk } from './steps.mjs'

const port = Number(process.argv[3])
const client = new KsqldbClient({ host: 'http://127.0.0.1', port })
const stream = unique('S').replaceAll('-', '_').toUpperCase()
const table = `T_${stream}`
const earliest = { properties: { 'auto.offset.reset': 'earliest' } }

await walk({
  'a stream and a table are made': async () => {
    await client.connect()
    const made = await client.executeStatement(`CREATE STREAM ${stream} (id INT KEY, item STRING) WITH (kafka_topic='${stream}', value_format='json', partitions=1);`)
    assert.deepEqual([made.status, made.data.rows[0].commandStatus.status], [200, 'SUCCESS'])
    const second = await client.executeStatement(`CREATE TABLE ${table} (id INT PRIMARY KEY, item STRING) WITH (kafka_topic='${stream}', value_format='json');`)
    assert.equal(second.status, 200)
  },
  'they are listed and described': async () => {
    assert.ok((await client.listStreams()).some(each => each.name === stream && each.topic === stream))
    assert.ok((await client.listTables()).some(each => each.name === table))
    assert.ok((await client.listTopics()).some(each => each.name === stream))
    assert.ok(Array.isArray(await client.listQueries()))
    const described = await client.describeSource(stream)
    assert.deepEqual(described.fields.map(each => each.name), ['ID', 'ITEM'])
  },
  'rows are inserted and pulled': async () => {
    for (const row of [{ id: 1, item: 'pen' }, { id: 2, item: 'cup' }]) {
      const told = await client.insertInto(stream, row)
      assert.deepEqual([told.status, told.data.rows], [200, [{ status: 'ok', seq: 0 }]])
    }
    const { data } = await client.query(`SELECT * FROM ${stream};`)
    assert.deepEqual(data.rows, [{ ID: 1, ITEM: 'pen' }, { ID: 2, ITEM: 'cup' }])
    await until(async () => {
      const { data } = await client.query(`SELECT item FROM ${table} WHERE id = 2;`)
      return data.rows.length === 1 && data.rows[0].ITEM === 'cup'
    }, 'the row of a key')
  },
  'a push query gives rows until it is ended': async () => {
    const seen = []
    let id
    const pushed = client.streamQuery(`SELECT * FROM ${stream} EMIT CHANGES;`, ({ metadata, rows }) => {
      id = metadata.queryId
      seen.push(...(rows ?? []))
    })
    await until(() => id, 'the head of the answer')
    await client.insertInto(stream, { id: 3, item: 'new' })
    await until(() => seen.length === 1, 'a row')
    assert.deepEqual(seen, [{ ID: 3, ITEM: 'new' }])
    await client.terminatePushQuery(id).catch(() => {}) // it wants a command's number of any answer
    assert.equal((await pushed).status, 200)
  },
  'a limit ends a push query': async () => {
    const { status } = await client.streamQuery(`SELECT * FROM ${stream} EMIT CHANGES LIMIT 1;`, () => {}, earliest)
    assert.equal(status, 200)
  },
  'a wrong query is told': async () => {
    const { status, error } = await client.query('SELECT * FROM nowhere;')
    assert.equal(status, 400)
    assert.match(error.message, /NOWHERE/)
  }
})
