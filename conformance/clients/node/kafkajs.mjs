// kafkajs: what its users do, step by step, against the broker named in the first argument.
import assert from 'node:assert/strict'
import zlib from 'node:zlib'

import { lz4Compress, lz4Decompress, snappyCompress, snappyDecompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'

import { access, cutConnections, guest, unique, until, walk, whenLoggedIn, whenSecured } from './steps.mjs'

const {
  AclOperationTypes, AclPermissionTypes, AclResourceTypes, CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, Partitioners,
  ResourcePatternTypes, logLevel
} = kafkajs

// kafkajs brings gzip only; its users add the other codecs just like this.
const added = {
  Snappy: [snappyCompress, snappyDecompress],
  LZ4: [lz4Compress, lz4Decompress],
  ZSTD: [zlib.zstdCompressSync, zlib.zstdDecompressSync]
}
for (const [name, [compress, decompress]] of Object.entries(added)) {
  CompressionCodecs[CompressionTypes[name]] = () => ({
    compress: async encoder => Buffer.from(compress(encoder.buffer)),
    decompress: async buffer => Buffer.from(decompress(buffer))
  })
}

const kafkaAs = login => new Kafka({
  clientId: 'walk',
  brokers: [process.argv[2]],
  ...(access && { ssl: access.tls }),
  ...(login && { sasl: { mechanism: 'scram-sha-512', ...login } }),
  logLevel: logLevel.NOTHING,
  retry: { retries: 8, initialRetryTime: 100 }
})
const kafka = kafkaAs(access?.login)
const admin = kafka.admin()

async function newTopic (numPartitions = 1, configs = {}) {
  const topic = unique('kafkajs')
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions, configEntries }] })
  return topic
}

async function withProducer (options, use) {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options })
  await producer.connect()
  try {
    return await use(producer)
  } finally {
    await producer.disconnect()
  }
}

function produce (topic, messages, options = {}) {
  return withProducer({}, producer => producer.send({ topic, messages, ...options }))
}

/** The first `count` messages that a fresh group reads; `start` is called once it has joined. */
async function consume (topic, count, { fromBeginning = true, start = () => {}, ...options } = {}) {
  const consumer = kafka.consumer({ groupId: unique('reader'), maxWaitTimeInMs: 200, ...options })
  const found = []
  await consumer.connect()
  try {
    const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
    await consumer.subscribe({ topics: [topic], fromBeginning })
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        found.push({ partition, ...message })
      }
    })
    await joined
    await start(consumer)
    await until(() => found.length >= count, `${count} messages of ${topic}, got ${found.length}`)
    return found
  } finally {
    await consumer.disconnect()
  }
}

const text = messages => messages.map(each => each.value.toString())

/** A member of a group; `assignment` is what its last join gave it. */
async function member (groupId, topic, onMessage = async () => {}) {
  const consumer = kafka.consumer({
    groupId, maxWaitTimeInMs: 200, sessionTimeout: 6000, rebalanceTimeout: 6000, heartbeatInterval: 300
  })
  const self = { consumer, assignment: undefined, joins: 0 }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    self.assignment = payload.memberAssignment[topic] ?? []
    self.joins += 1
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachMessage: onMessage })
  return self
}

/** Every error that an error of kafkajs wraps, itself included. */
function wrapped (error) {
  if (error === undefined || error === null) return []
  const inner = [error.cause, ...(error.errors ?? []), ...(error.partitions ?? []).map(each => each.error)]
  return [error, ...inner.flatMap(wrapped)]
}

async function fails (promise, type) {
  await assert.rejects(promise, error => {
    const types = wrapped(error).map(each => each.type)
    assert.ok(types.includes(type), `expected ${type}, not ${error.type ?? error.name}: ${error.message}`)
    return true
  })
}

const steps = {
  'connects and describes the cluster': async () => {
    await admin.connect()
    const { brokers, controller, clusterId } = await admin.describeCluster()
    assert.deepEqual(brokers.map(each => `${each.host}:${each.port}`), [process.argv[2]])
    assert.equal(controller, brokers[0].nodeId)
    assert.equal(typeof clusterId, 'string')
  },
  'creates topics with partitions and configs': async () => {
    const topic = await newTopic(3, { 'cleanup.policy': 'compact', 'retention.ms': '120000' })
    const { topics: [{ partitions }] } = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.deepEqual(partitions.map(each => each.partitionId).sort(), [0, 1, 2])
    assert.ok((await admin.listTopics()).includes(topic))
  },
  'is told that a topic exists': async () => {
    const topic = await newTopic()
    assert.equal(await admin.createTopics({ topics: [{ topic }] }), false)
  },
  'is refused a topic with an invalid config': () =>
    fails(admin.createTopics({
      topics: [{ topic: unique('kafkajs'), configEntries: [{ name: 'cleanup.policy', value: 'shred' }] }]
    }), 'INVALID_CONFIG'),
  'is refused a topic with an invalid name': () =>
    fails(admin.createTopics({ topics: [{ topic: 'no spaces' }] }), 'INVALID_TOPIC_EXCEPTION'),
  'is refused too many replicas': () =>
    fails(admin.createTopics({ topics: [{ topic: unique('kafkajs'), replicationFactor: 3 }] }), 'INVALID_REPLICATION_FACTOR'),
  'validates a topic without creating it': async () => {
    const topic = unique('kafkajs')
    assert.equal(await admin.createTopics({ validateOnly: true, waitForLeaders: false, topics: [{ topic }] }), true)
    assert.ok(!(await admin.listTopics()).includes(topic))
  },
  'is told of an unknown topic': () =>
    fails(admin.fetchTopicMetadata({ topics: [unique('missing')] }), 'UNKNOWN_TOPIC_OR_PARTITION'),
  'is refused a message to an unknown topic': () =>
    fails(withProducer({ allowAutoTopicCreation: false, retry: { retries: 1, initialRetryTime: 50 } }, producer =>
      producer.send({ topic: unique('missing'), messages: [{ value: 'a' }] })), 'UNKNOWN_TOPIC_OR_PARTITION'),
  ...Object.fromEntries(['None', 'GZIP', 'Snappy', 'LZ4', 'ZSTD'].map(codec => [
    `produces and consumes with codec ${codec.toLowerCase()}`,
    async () => {
      const topic = await newTopic()
      const values = Array.from({ length: 200 }, (_, number) => `value ${number} ${'x'.repeat(100)}`)
      await produce(topic, values.map(value => ({ value })), { compression: CompressionTypes[codec] })
      assert.deepEqual(text(await consume(topic, 200)), values)
    }
  ])),
  ...Object.fromEntries([0, 1, -1].map(acks => [
    `produces with acks=${acks}`,
    async () => {
      const topic = await newTopic()
      const sent = await produce(topic, [{ value: 'a' }, { value: 'b' }], { acks })
      if (acks !== 0) assert.equal(sent[0].baseOffset, '0')
      assert.deepEqual(text(await consume(topic, 2)), ['a', 'b'])
    }
  ])),
  'keeps keys, headers, timestamps and null values': async () => {
    const topic = await newTopic()
    const timestamp = '1600000000123'
    await produce(topic, [
      { key: 'k', value: 'v', headers: { trace: 'abc', many: ['1', '2'], empty: '' }, timestamp },
      { key: 'gone', value: null, timestamp },
      { key: null, value: '', timestamp }
    ])
    const [first, second, third] = await consume(topic, 3)
    assert.equal(first.key.toString(), 'k')
    assert.equal(first.headers.trace.toString(), 'abc')
    assert.deepEqual(first.headers.many.map(String), ['1', '2'])
    assert.equal(first.headers.empty.length, 0)
    assert.equal(first.timestamp, timestamp)
    assert.equal(second.value, null)
    assert.equal(third.key, null)
    assert.equal(third.value.length, 0)
  },
  'sends one batch to several topics and partitions': async () => {
    const topics = [await newTopic(4), await newTopic(2)]
    const messages = Array.from({ length: 1000 }, (_, number) => ({ key: `${number}`, value: `${number}` }))
    await withProducer({}, producer =>
      producer.sendBatch({ topicMessages: topics.map(topic => ({ topic, messages })) }))
    for (const topic of topics) {
      const found = await consume(topic, 1000)
      assert.equal(new Set(text(found)).size, 1000)
      assert.ok(new Set(found.map(each => each.partition)).size > 1)
    }
  },
  'produces a record just below max.message.bytes': async () => {
    const topic = await newTopic(1, { 'max.message.bytes': '100000' })
    await produce(topic, [{ value: Buffer.alloc(99_900, 'l') }])
    const [found] = await consume(topic, 1)
    assert.equal(found.value.length, 99_900)
  },
  'is refused a record above max.message.bytes': async () => {
    const topic = await newTopic(1, { 'max.message.bytes': '100000' })
    await fails(produce(topic, [{ value: Buffer.alloc(100_001, 'l') }]), 'MESSAGE_TOO_LARGE')
  },
  'is refused a record without a key on a compacted topic': async () => {
    const topic = await newTopic(1, { 'cleanup.policy': 'compact' })
    await fails(produce(topic, [{ value: 'no key' }]), 'INVALID_RECORD')
  },
  'produces idempotently': async () => {
    const topic = await newTopic(2)
    await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async producer => {
      for (let number = 0; number < 20; number++) {
        await producer.send({ topic, messages: [{ key: `${number}`, value: `${number}` }] })
      }
    })
    assert.equal(new Set(text(await consume(topic, 20))).size, 20)
  },
  'commits a transaction': async () => {
    const topic = await newTopic(2)
    await withProducer({ transactionalId: unique('tx'), maxInFlightRequests: 1, idempotent: true }, async producer => {
      for (const round of ['a', 'b']) {
        const transaction = await producer.transaction()
        await transaction.send({ topic, messages: [{ partition: 0, value: `${round}0` }, { partition: 1, value: `${round}1` }] })
        await transaction.commit()
      }
    })
    assert.deepEqual(text(await consume(topic, 4)).sort(), ['a0', 'a1', 'b0', 'b1'])
  },
  'aborts a transaction, which read_committed never sees': async () => {
    const topic = await newTopic()
    await withProducer({ transactionalId: unique('tx'), maxInFlightRequests: 1, idempotent: true }, async producer => {
      const aborted = await producer.transaction()
      await aborted.send({ topic, messages: [{ value: 'aborted' }] })
      await aborted.abort()
      const committed = await producer.transaction()
      await committed.send({ topic, messages: [{ value: 'committed' }] })
      await committed.commit()
    })
    assert.deepEqual(text(await consume(topic, 1)), ['committed'])
    assert.deepEqual(text(await consume(topic, 2, { readUncommitted: true })), ['aborted', 'committed'])
  },
  'commits offsets in a transaction, and none with an aborted one': async () => {
    const [topic, groupId] = [await newTopic(), unique('group')]
    const committed = async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions[0].offset
    await withProducer({ transactionalId: unique('tx'), maxInFlightRequests: 1, idempotent: true }, async producer => {
      for (const [offset, end] of [['5', 'commit'], ['9', 'abort']]) {
        const transaction = await producer.transaction()
        await transaction.send({ topic, messages: [{ value: offset }] })
        await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic, partitions: [{ partition: 0, offset }] }] })
        await transaction[end]()
      }
    })
    await until(async () => await committed() === '5', 'the committed offset')
  },
  'is fenced by a newer producer of its transactional id': async () => {
    const [topic, transactionalId] = [await newTopic(), unique('tx')]
    await withProducer({ transactionalId, idempotent: true, maxInFlightRequests: 1 }, async older => {
      const transaction = await older.transaction()
      await transaction.send({ topic, messages: [{ value: 'old' }] })
      await withProducer({ transactionalId, idempotent: true, maxInFlightRequests: 1 }, async newer => {
        const its = await newer.transaction()
        await its.send({ topic, messages: [{ value: 'new' }] })
        await its.commit()
      })
      await assert.rejects(transaction.send({ topic, messages: [{ value: 'too late' }] }))
    })
    assert.deepEqual(text(await consume(topic, 1)), ['new'])
  },
  'consumes from the latest offset': async () => {
    const topic = await newTopic()
    await produce(topic, [{ value: 'before' }])
    const found = await consume(topic, 1, {
      fromBeginning: false,
      // "latest" is looked up after the join; what is sent until then may be skipped, so go on sending
      start: async consumer => {
        let received = false
        consumer.on(consumer.events.END_BATCH_PROCESS, () => { received = true })
        await until(async () => {
          await produce(topic, [{ value: 'after' }])
          return received
        }, 'a message after the join')
      }
    })
    assert.deepEqual(new Set(text(found)), new Set(['after']))
  },
  'consumes from an offset': async () => {
    const topic = await newTopic()
    await produce(topic, Array.from({ length: 10 }, (_, number) => ({ value: `${number}` })))
    const consumer = kafka.consumer({ groupId: unique('seeker'), maxWaitTimeInMs: 200 })
    const found = []
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ eachMessage: async ({ message }) => { found.push(message) } })
    consumer.seek({ topic, partition: 0, offset: '7' })
    await until(() => found.length >= 3, 'the last three')
    await consumer.disconnect()
    assert.deepEqual(text(found), ['7', '8', '9'])
  },
  'finds offsets by timestamp': async () => {
    const topic = await newTopic()
    await produce(topic, [1000, 2000, 3000].map(time => ({ value: 'v', timestamp: `${1_600_000_000_000 + time}` })))
    const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(topic, 1_600_000_001_500)
    assert.equal(offset, '1')
    const [{ offset: end }] = await admin.fetchTopicOffsetsByTimestamp(topic, 1_700_000_000_000)
    assert.equal(end, '3')
  },
  'lists the offsets of a topic': async () => {
    const topic = await newTopic(2)
    await produce(topic, [{ partition: 1, value: 'a' }, { partition: 1, value: 'b' }])
    const found = (await admin.fetchTopicOffsets(topic)).sort((a, b) => a.partition - b.partition)
    assert.deepEqual(found.map(each => [each.low, each.high]), [['0', '0'], ['0', '2']])
  },
  'shares partitions in a group, and takes over from a member that leaves': async () => {
    const [topic, groupId] = [await newTopic(4), unique('group')]
    const first = await member(groupId, topic)
    await until(() => first.assignment?.length === 4, 'all partitions for one member')
    const second = await member(groupId, topic)
    await until(() => first.assignment.length === 2 && second.assignment?.length === 2, 'two partitions each')
    assert.deepEqual([...first.assignment, ...second.assignment].sort(), [0, 1, 2, 3])
    await second.consumer.disconnect()
    await until(() => first.assignment.length === 4, 'all partitions again')
    await first.consumer.disconnect()
  },
  'goes on from the committed offset, and tells the lag': async () => {
    const [topic, groupId] = [await newTopic(), unique('group')]
    await produce(topic, ['a', 'b', 'c', 'd'].map(value => ({ value })))
    const first = await member(groupId, topic)
    await until(() => first.assignment, 'the join')
    await first.consumer.commitOffsets([{ topic, partition: 0, offset: '2', metadata: 'half' }])
    await first.consumer.disconnect()
    const [{ partitions: [committed] }] = await admin.fetchOffsets({ groupId, topics: [topic] })
    const [{ high }] = await admin.fetchTopicOffsets(topic)
    assert.deepEqual([committed.offset, committed.metadata, high - committed.offset], ['2', 'half', 2])
    const found = []
    const second = await member(groupId, topic, async ({ message }) => { found.push(message) })
    await until(() => found.length >= 2, 'the other half')
    await second.consumer.disconnect()
    assert.deepEqual(text(found), ['c', 'd'])
  },
  'sets offsets of an empty group': async () => {
    const [topic, groupId] = [await newTopic(), unique('group')]
    await produce(topic, ['a', 'b', 'c'].map(value => ({ value })))
    const committed = async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions[0].offset
    await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '2' }] })
    assert.equal(await committed(), '2')
  },
  'lists, describes and deletes groups': async () => {
    const [topic, groupId] = [await newTopic(2), unique('group')]
    const one = await member(groupId, topic)
    await until(() => one.assignment?.length === 2, 'the join')
    assert.ok((await admin.listGroups()).groups.some(each => each.groupId === groupId && each.protocolType === 'consumer'))
    const { groups: [described] } = await admin.describeGroups([groupId])
    assert.deepEqual([described.state, described.protocol, described.members.length], ['Stable', 'RoundRobinAssigner', 1])
    assert.equal(described.members[0].clientId, 'walk')
    await assert.rejects(admin.deleteGroups([groupId]), error => error.groups[0].error.type === 'NON_EMPTY_GROUP')
    await one.consumer.disconnect()
    assert.equal((await admin.deleteGroups([groupId]))[0].errorCode, 0)
    assert.ok(!(await admin.listGroups()).groups.some(each => each.groupId === groupId))
  },
  'describes an unknown group as dead': async () => {
    const { groups: [described] } = await admin.describeGroups([unique('missing')])
    assert.equal(described.state, 'Dead')
  },
  'describes and alters configs of a topic': async () => {
    const topic = await newTopic(1, { 'retention.ms': '120000' })
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
    const value = async name => {
      const { resources } = await admin.describeConfigs({ includeSynonyms: true, resources: [{ ...resource, configNames: [name] }] })
      return resources[0].configEntries[0].configValue
    }
    assert.equal(await value('retention.ms'), '120000')
    await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'segment.bytes', value: '2097152' }] }] })
    // kafkajs knows AlterConfigs only, which replaces the whole set
    assert.deepEqual([await value('segment.bytes'), await value('retention.ms')], ['2097152', '604800000'])
    await fails(admin.alterConfigs({
      validateOnly: true, resources: [{ ...resource, configEntries: [{ name: 'segment.bytes', value: 'many' }] }]
    }), 'INVALID_CONFIG')
  },
  'describes configs of a broker': async () => {
    const { brokers: [{ nodeId }] } = await admin.describeCluster()
    const { resources: [{ configEntries }] } = await admin.describeConfigs({
      includeSynonyms: false, resources: [{ type: ConfigResourceTypes.BROKER, name: `${nodeId}` }]
    })
    const found = Object.fromEntries(configEntries.map(each => [each.configName, each]))
    assert.equal(found['node.id'].configValue, `${nodeId}`)
    assert.equal(found['node.id'].readOnly, true)
    assert.ok('log.retention.ms' in found && 'num.partitions' in found)
  },
  'adds partitions, and is refused fewer': async () => {
    const topic = await newTopic(2)
    await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
    await until(async () => {
      const { topics: [{ partitions }] } = await admin.fetchTopicMetadata({ topics: [topic] })
      return partitions.length === 5
    }, 'five partitions')
    await fails(admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] }), 'INVALID_PARTITIONS')
  },
  'deletes records': async () => {
    const topic = await newTopic()
    await produce(topic, ['a', 'b', 'c'].map(value => ({ value })))
    await admin.fetchTopicOffsets(topic) // deleteTopicRecords alone does not look up who leads the partition
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] })
    const [{ low, high }] = await admin.fetchTopicOffsets(topic)
    assert.deepEqual([low, high], ['2', '3'])
    assert.deepEqual(text(await consume(topic, 1)), ['c'])
  },
  'is refused to delete records beyond the end': async () => {
    const topic = await newTopic()
    await admin.fetchTopicOffsets(topic)
    await fails(admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '7' }] }), 'OFFSET_OUT_OF_RANGE')
  },
  'lists reassignments, of which there are none': async () => {
    assert.deepEqual((await admin.listPartitionReassignments({})).topics, [])
  },
  'deletes topics': async () => {
    const topic = await newTopic()
    await admin.deleteTopics({ topics: [topic] })
    await until(async () => !(await admin.listTopics()).includes(topic), 'no such topic')
    // With its default retries kafkajs asks for up to 30 s whether a topic that is not there is there.
    const impatient = kafka.admin({ retry: { retries: 1 } })
    await impatient.connect()
    await fails(impatient.deleteTopics({ topics: [topic] }), 'UNKNOWN_TOPIC_OR_PARTITION')
    await impatient.disconnect()
  },
  'goes on after its connections were cut': async () => {
    const topic = await newTopic()
    await withProducer({}, async producer => {
      await producer.send({ topic, messages: [{ value: 'before' }] })
      cutConnections()
      await producer.send({ topic, messages: [{ value: 'after' }] })
    })
    assert.deepEqual(text(await consume(topic, 2)), ['before', 'after'])
    assert.ok((await admin.listTopics()).includes(topic))
  },
  'manages ACLs': whenSecured(async () => {
    const resourceName = unique('acl')
    const principal = `User:${unique('user')}`
    const acl = {
      resourceType: AclResourceTypes.TOPIC,
      resourceName,
      resourcePatternType: ResourcePatternTypes.PREFIXED,
      principal,
      host: '*',
      operation: AclOperationTypes.READ,
      permissionType: AclPermissionTypes.ALLOW
    }
    await admin.createAcls({ acl: [acl] })
    const found = await until(async () => (await admin.describeAcls(acl)).resources[0], 'the ACL')
    assert.equal(found.resourceName, resourceName)
    assert.deepEqual(found.acls.map(each => each.principal), [principal])
    const { filterResponses: [deleted] } = await admin.deleteAcls({ filters: [acl] })
    assert.equal(deleted.matchingAcls.length, 1)
    await until(async () => (await admin.describeAcls(acl)).resources.length === 0, 'its end')
  }),
  'is refused what an ACL denies, until it is gone': whenLoggedIn(async () => {
    const topic = await newTopic()
    const denial = {
      resourceType: AclResourceTypes.TOPIC,
      resourceName: topic,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: `User:${guest.username}`,
      host: '*',
      operation: AclOperationTypes.WRITE,
      permissionType: AclPermissionTypes.DENY
    }
    await admin.createAcls({ acl: [denial] })
    const producer = kafkaAs(guest).producer({ createPartitioner: Partitioners.DefaultPartitioner, retry: { retries: 0 } })
    await producer.connect()
    const sent = () => producer.send({ topic, messages: [{ value: 'v' }] }).then(() => '', error => wrapped(error).at(-1).type)
    await until(async () => await sent() === 'TOPIC_AUTHORIZATION_FAILED', 'the denial')
    await admin.deleteAcls({ filters: [denial] })
    // Where there is no ACL of a resource, everybody is let in.
    await until(async () => await sent() === '', 'the permission')
    await producer.disconnect()
  })
}

await walk(steps)
