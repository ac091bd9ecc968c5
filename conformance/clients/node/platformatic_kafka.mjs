// @platformatic/kafka: what its users do, step by step, against the broker named in the first argument.
import assert from 'node:assert/strict'

import {
  AclOperations, AclPermissionTypes, Admin, ClientQuotaMatchTypes, ConfigResourceTypes, Consumer, FetchIsolationLevels, findErrorBy, FindCoordinatorKeyTypes,
  IncrementalAlterConfigOperationTypes, ListOffsetTimestamps, Producer,
  ResourcePatternTypes, ResourceTypes, stringDeserializers, stringSerializers
} from '@platformatic/kafka'

import { access, cutConnections, guest, unique, until, walk, whenLoggedIn, whenSecured, within } from './steps.mjs'

const common = {
  clientId: 'walk',
  bootstrapBrokers: [process.argv[2]],
  retries: 8,
  retryDelay: 100,
  ...(access && { tls: access.tls }),
  ...(access?.login && { sasl: { mechanism: 'SCRAM-SHA-512', ...access.login } })
}
const admin = new Admin(common)

async function newTopic (partitions = 1, configs = {}) {
  const topic = unique('platformatic')
  await admin.createTopics({
    topics: [topic], partitions, replicas: 1, configs: Object.entries(configs).map(([name, value]) => ({ name, value }))
  })
  return topic
}

async function closing (client, use) {
  try {
    return await use(client)
  } finally {
    await client.close(true)
  }
}

function withProducer (options, use) {
  return closing(new Producer({ ...common, serializers: stringSerializers, ...options }), use)
}

function produce (topic, messages, options = {}) {
  return withProducer({}, producer =>
    producer.send({ acks: -1, ...options, messages: messages.map(each => ({ topic, ...each })) }))
}

const newConsumer = (options = {}) => new Consumer({
  ...common, groupId: unique('reader'), maxWaitTime: 200, autocommit: false, deserializers: stringDeserializers, ...options
})

/** The first `count` messages of a stream. */
async function take (stream, count) {
  const found = []
  if (count === 0) return found
  const reading = (async () => {
    for await (const message of stream) {
      found.push(message)
      if (found.length >= count) return
    }
  })()
  await within(20_000, reading, `${count} messages, got ${found.length}`)
  return found
}

/** The first `count` messages that a fresh consumer reads. */
function consume (topic, count, { mode = 'earliest', offsets, ...options } = {}) {
  return closing(newConsumer(options), async consumer =>
    take(await consumer.consume({ topics: [topic], mode, offsets, sessionTimeout: 10_000, heartbeatInterval: 500 }), count))
}

const values = messages => messages.map(each => each.value)

async function fails (promise, apiId) {
  await assert.rejects(promise, error => {
    assert.ok(findErrorBy(error, 'apiId', apiId), `expected ${apiId}, not ${error.message} ${error.errors ?? ''}`)
    return true
  })
}

/** A member of a group in either protocol; `partitions()` are those it has. */
async function member (groupId, topic, options = {}) {
  const consumer = newConsumer({ groupId, ...options })
  const classic = options.groupProtocol === 'consumer' ? {} : { sessionTimeout: 6000, rebalanceTimeout: 6000, heartbeatInterval: 300 }
  const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', ...classic })
  const found = []
  stream.on('data', message => found.push(message))
  stream.on('error', () => {})
  const partitions = () => (consumer.assignments ?? []).flatMap(each => each.topic === topic ? each.partitions : [])
  return { consumer, stream, found, partitions, leave: () => consumer.close(true) }
}

async function committedOffset (groupId, topic) {
  const [group] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
  return group.topics.find(each => each.name === topic)?.partitions[0].committedOffset
}

async function offsetAt (topic, timestamp, partitionIndex = 0) {
  const [{ partitions }] = await admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex, timestamp }] }] })
  return partitions[0].offset
}

/** Two members share the partitions of a topic; one leaves. */
async function sharesPartitions (options) {
  const [topic, groupId] = [await newTopic(4), unique('group')]
  const first = await member(groupId, topic, options)
  await until(() => first.partitions().length === 4, 'all partitions for one member')
  const second = await member(groupId, topic, options)
  await until(() => first.partitions().length === 2 && second.partitions().length === 2, 'two partitions each')
  assert.deepEqual([...first.partitions(), ...second.partitions()].sort(), [0, 1, 2, 3])
  await second.leave()
  await until(() => first.partitions().length === 4, 'all partitions again')
  await first.leave()
}

/** What one member committed is where the next one goes on. */
async function goesOnFromTheCommit (options) {
  const [topic, groupId] = [await newTopic(), unique('group')]
  await produce(topic, ['a', 'b', 'c', 'd'].map(value => ({ value })))
  const first = await member(groupId, topic, options)
  await until(() => first.found.length >= 4, 'all messages')
  await first.found[1].commit()
  await first.leave()
  assert.equal(await committedOffset(groupId, topic), 2n)
  const second = await member(groupId, topic, options)
  await until(() => second.found.length >= 2, 'the other half')
  await second.leave()
  assert.deepEqual(values(second.found), ['c', 'd'])
}

const steps = {
  'connects and lists the APIs': async () => {
    const apis = await admin.listApis()
    assert.ok(apis.some(each => each.name === 'Produce' && each.maxVersion >= 9))
  },
  'reads the metadata of the cluster': async () => {
    const { id, brokers, controllerId } = await admin.metadata({ topics: [] })
    assert.deepEqual([...brokers.values()].map(each => `${each.host}:${each.port}`), [process.argv[2]])
    assert.ok(brokers.has(controllerId))
    assert.equal(typeof id, 'string')
  },
  'creates topics with partitions and configs': async () => {
    const topic = unique('platformatic')
    const [created] = await admin.createTopics({
      topics: [topic], partitions: 3, replicas: 1, configs: [{ name: 'retention.ms', value: '120000' }]
    })
    assert.deepEqual([created.name, created.partitions, created.replicas, created.configuration['retention.ms']], [topic, 3, 1, '120000'])
    const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true })
    assert.equal(topics.get(topic).partitionsCount, 3)
    assert.equal(topics.get(topic).id, created.id)
    assert.ok((await admin.listTopics()).includes(topic))
  },
  'creates a topic with assignments': async () => {
    const { brokers } = await admin.metadata({ topics: [] })
    const [node] = brokers.keys()
    const [created] = await admin.createTopics({
      topics: [unique('platformatic')], partitions: -1, replicas: -1,
      assignments: [{ partition: 0, brokers: [node] }, { partition: 1, brokers: [node] }]
    })
    assert.equal(created.partitions, 2)
  },
  'is told that a topic exists': async () => {
    const topic = await newTopic()
    await fails(admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 }), 'TOPIC_ALREADY_EXISTS')
  },
  'is refused a topic with an invalid config': () =>
    fails(admin.createTopics({
      topics: [unique('platformatic')], partitions: 1, replicas: 1, configs: [{ name: 'cleanup.policy', value: 'shred' }]
    }), 'INVALID_CONFIG'),
  'is refused a topic with an invalid name': () =>
    fails(admin.createTopics({ topics: ['no spaces'], partitions: 1, replicas: 1 }), 'INVALID_TOPIC_EXCEPTION'),
  'is refused too many replicas': () =>
    fails(admin.createTopics({ topics: [unique('platformatic')], partitions: 1, replicas: 3 }), 'INVALID_REPLICATION_FACTOR'),
  'is told of an unknown topic': () =>
    assert.rejects(admin.metadata({ topics: [unique('missing')], retries: 0 }), /Unknown topic/),
  'is refused a message to an unknown topic': () =>
    assert.rejects(withProducer({ retries: 1 }, producer =>
      producer.send({ messages: [{ topic: unique('missing'), value: 'a' }] })), /Unknown topic/),
  ...Object.fromEntries(['none', 'gzip', 'snappy', 'lz4', 'zstd'].map(compression => [
    `produces and consumes with codec ${compression}`,
    async () => {
      const topic = await newTopic()
      const sent = Array.from({ length: 200 }, (_, number) => `value ${number} ${'x'.repeat(100)}`)
      await produce(topic, sent.map(value => ({ value })), { compression })
      assert.deepEqual(values(await consume(topic, 200)), sent)
    }
  ])),
  ...Object.fromEntries([0, 1, -1].map(acks => [
    `produces with acks=${acks}`,
    async () => {
      const topic = await newTopic()
      const { offsets } = await produce(topic, [{ value: 'a' }, { value: 'b' }], { acks })
      if (acks !== 0) assert.deepEqual(offsets, [{ topic, partition: 0, offset: 0n }])
      assert.deepEqual(values(await consume(topic, 2)), ['a', 'b'])
    }
  ])),
  'keeps keys, headers, timestamps and null values': async () => {
    const topic = await newTopic()
    const timestamp = 1_600_000_000_123n
    await produce(topic, [
      { key: 'k', value: 'v', headers: { trace: 'abc', empty: '' }, timestamp },
      { key: 'gone', timestamp },
      { value: '', timestamp }
    ])
    const [first, second, third] = await consume(topic, 3, { deserializers: {} })
    assert.deepEqual([String(first.key), String(first.value), first.timestamp], ['k', 'v', timestamp])
    assert.deepEqual(first.headerEntries.map(each => each.map(String)), [['trace', 'abc'], ['empty', '']])
    assert.equal(String(second.key), 'gone')
    assert.ok(second.value === null || second.value === undefined)
    assert.ok(third.key === null || third.key === undefined)
    assert.equal(third.value.length, 0)
  },
  'sends one batch to several topics and partitions': async () => {
    const topics = [await newTopic(4), await newTopic(2)]
    const messages = topics.flatMap(topic =>
      Array.from({ length: 1000 }, (_, number) => ({ topic, key: `${number}`, value: `${number}` })))
    await withProducer({}, producer => producer.send({ messages, acks: -1 }))
    for (const topic of topics) {
      const found = await consume(topic, 1000)
      assert.equal(new Set(values(found)).size, 1000)
      assert.ok(new Set(found.map(each => each.partition)).size > 1)
    }
  },
  'sends a stream': async () => {
    const topic = await newTopic()
    await withProducer({}, async producer => {
      const stream = producer.asStream({ batchSize: 50, batchTime: 20 })
      for (let number = 0; number < 500; number++) stream.write({ topic, value: `${number}` })
      await stream.close()
    })
    assert.equal(new Set(values(await consume(topic, 500))).size, 500)
  },
  'produces a record just below max.message.bytes': async () => {
    const topic = await newTopic(1, { 'max.message.bytes': '100000' })
    await produce(topic, [{ value: 'l'.repeat(99_900) }])
    const [found] = await consume(topic, 1)
    assert.equal(found.value.length, 99_900)
  },
  'is refused a record above max.message.bytes': async () => {
    const topic = await newTopic(1, { 'max.message.bytes': '100000' })
    await fails(produce(topic, [{ value: 'l'.repeat(100_001) }]), 'MESSAGE_TOO_LARGE')
  },
  'is refused a record without a key on a compacted topic': async () => {
    const topic = await newTopic(1, { 'cleanup.policy': 'compact' })
    await fails(produce(topic, [{ value: 'no key' }]), 'INVALID_RECORD')
  },
  'produces idempotently': async () => {
    const topic = await newTopic(2)
    await withProducer({ idempotent: true }, async producer => {
      for (let number = 0; number < 20; number++) {
        await producer.send({ messages: [{ topic, key: `${number}`, value: `${number}` }] })
      }
      assert.ok(producer.producerId >= 0n)
    })
    assert.equal(new Set(values(await consume(topic, 20))).size, 20)
  },
  'commits a transaction': async () => {
    const topic = await newTopic(2)
    await withProducer({ transactionalId: unique('tx'), idempotent: true }, async producer => {
      for (const round of ['a', 'b']) {
        const transaction = await producer.beginTransaction()
        await transaction.send({ messages: [{ topic, partition: 0, value: `${round}0` }, { topic, partition: 1, value: `${round}1` }] })
        await transaction.commit()
      }
    })
    assert.deepEqual(values(await consume(topic, 4)).sort(), ['a0', 'a1', 'b0', 'b1'])
  },
  'aborts a transaction, which read_committed never sees': async () => {
    const topic = await newTopic()
    await withProducer({ transactionalId: unique('tx'), idempotent: true }, async producer => {
      for (const [value, end] of [['aborted', 'abort'], ['committed', 'commit']]) {
        const transaction = await producer.beginTransaction()
        await transaction.send({ messages: [{ topic, value }] })
        await transaction[end]()
      }
    })
    assert.deepEqual(values(await consume(topic, 1, { isolationLevel: FetchIsolationLevels.READ_COMMITTED })), ['committed'])
    assert.deepEqual(values(await consume(topic, 2, { isolationLevel: FetchIsolationLevels.READ_UNCOMMITTED })), ['aborted', 'committed'])
  },
  'commits offsets in a transaction, and none with an aborted one': async () => {
    const [topic, groupId] = [await newTopic(), unique('group')]
    await produce(topic, ['a', 'b', 'c'].map(value => ({ value })))
    const reader = await member(groupId, topic)
    await until(() => reader.found.length === 3, 'three messages')
    await withProducer({ transactionalId: unique('tx'), idempotent: true }, async producer => {
      for (const [index, end] of [[1, 'commit'], [2, 'abort']]) {
        const transaction = await producer.beginTransaction()
        await transaction.addConsumer(reader.consumer)
        await transaction.addOffset(reader.found[index])
        await transaction[end]()
      }
    })
    await until(async () => await committedOffset(groupId, topic) !== undefined, 'a committed offset')
    // The client commits the offset of the message, not the one after it.
    const committed = await committedOffset(groupId, topic)
    await reader.leave()
    assert.ok([1n, 2n].includes(committed), `${committed}`)
  },
  'is fenced by a newer producer of its transactional id': async () => {
    const [topic, transactionalId] = [await newTopic(), unique('tx')]
    await withProducer({ transactionalId, idempotent: true, retries: 0 }, async older => {
      const transaction = await older.beginTransaction()
      await transaction.send({ messages: [{ topic, value: 'old' }] })
      await withProducer({ transactionalId, idempotent: true }, async newer => {
        const its = await newer.beginTransaction()
        await its.send({ messages: [{ topic, value: 'new' }] })
        await its.commit()
      })
      await assert.rejects(transaction.send({ messages: [{ topic, value: 'too late' }] }))
      await transaction.cancel().catch(() => {})
    })
    assert.deepEqual(values(await consume(topic, 1)), ['new'])
  },
  'consumes from the latest offset': async () => {
    const topic = await newTopic()
    await produce(topic, [{ value: 'before' }])
    await closing(newConsumer(), async consumer => {
      const stream = await consumer.consume({ topics: [topic], mode: 'latest' })
      await until(() => stream.offsetsToFetch.size === 1, 'the position')
      await produce(topic, [{ value: 'after' }])
      assert.deepEqual(values(await take(stream, 1)), ['after'])
    })
  },
  'consumes from an offset': async () => {
    const topic = await newTopic()
    await produce(topic, Array.from({ length: 10 }, (_, number) => ({ value: `${number}` })))
    const found = await consume(topic, 3, { mode: 'manual', offsets: [{ topic, partition: 0, offset: 7n }] })
    assert.deepEqual(values(found), ['7', '8', '9'])
  },
  'finds offsets by timestamp': async () => {
    const topic = await newTopic()
    await produce(topic, [1000n, 2000n, 3000n].map(time => ({ value: 'v', timestamp: 1_600_000_000_000n + time })))
    assert.equal(await offsetAt(topic, 1_600_000_001_500n), 1n)
    assert.equal(await offsetAt(topic, 1_700_000_000_000n), -1n)
    assert.equal(await offsetAt(topic, ListOffsetTimestamps.EARLIEST), 0n)
    assert.equal(await offsetAt(topic, ListOffsetTimestamps.LATEST), 3n)
    assert.equal(await offsetAt(topic, ListOffsetTimestamps.MAX), 2n)
  },
  'lists offsets as a consumer': async () => {
    const topic = await newTopic(2)
    await produce(topic, [{ partition: 1, value: 'a' }, { partition: 1, value: 'b' }])
    await closing(newConsumer(), async consumer => {
      assert.deepEqual((await consumer.listOffsets({ topics: [topic] })).get(topic), [0n, 2n])
      const byTime = await consumer.listOffsetsWithTimestamps({ topics: [topic], timestamp: ListOffsetTimestamps.EARLIEST })
      assert.equal(byTime.get(topic).get(1).offset, 0n)
    })
  },
  'shares partitions in a classic group, and takes over from a member that leaves': () => sharesPartitions({}),
  'shares partitions in a consumer group (KIP-848), and takes over from a member that leaves': () =>
    sharesPartitions({ groupProtocol: 'consumer' }),
  'goes on from the committed offset in a classic group': () => goesOnFromTheCommit({}),
  'goes on from the committed offset in a consumer group (KIP-848)': () => goesOnFromTheCommit({ groupProtocol: 'consumer' }),
  'rejoins as a static member without a rebalance': async () => {
    const [topic, groupId] = [await newTopic(2), unique('group')]
    const first = await member(groupId, topic, { groupInstanceId: 'one' })
    await until(() => first.partitions().length === 2, 'the join')
    const generation = first.consumer.generationId
    const [described] = (await admin.describeGroups({ groups: [groupId] })).values()
    assert.deepEqual([...described.members.values()].map(each => each.groupInstanceId), ['one'])
    await first.leave()
    const second = await member(groupId, topic, { groupInstanceId: 'one' })
    await until(() => second.partitions().length === 2, 'the second join')
    assert.ok(second.consumer.generationId >= generation)
    await second.leave()
  },
  'tells the lag': async () => {
    const [topic, groupId] = [await newTopic(), unique('group')]
    await produce(topic, ['a', 'b', 'c', 'd'].map(value => ({ value })))
    const reader = await member(groupId, topic)
    await until(() => reader.found.length >= 4, 'all messages')
    await reader.found[0].commit()
    const committed = await reader.consumer.listCommittedOffsets({ topics: [{ topic, partitions: [0] }] })
    assert.deepEqual(committed.get(topic), [1n])
    const lag = await reader.consumer.getLag({ topics: [topic] })
    await reader.leave()
    assert.equal(typeof lag.get(topic)[0], 'bigint')
  },
  'finds coordinators': async () => {
    const found = await admin.findCoordinator({ keyType: FindCoordinatorKeyTypes.GROUP, keys: [unique('a'), unique('b')] })
    assert.deepEqual(found.map(each => `${each.host}:${each.port}`), [process.argv[2], process.argv[2]])
  },
  'lists, describes and deletes groups': async () => {
    const [topic, groupId] = [await newTopic(2), unique('group')]
    const one = await member(groupId, topic)
    await until(() => one.partitions().length === 2, 'the join')
    const listed = (await admin.listGroups({ types: ['classic'] })).get(groupId)
    assert.equal(listed.protocolType, 'consumer')
    const described = (await admin.describeGroups({ groups: [groupId] })).get(groupId)
    assert.deepEqual([described.state.toUpperCase(), described.members.size], ['STABLE', 1])
    await fails(admin.deleteGroups({ groups: [groupId] }), 'NON_EMPTY_GROUP')
    await one.leave()
    await admin.deleteGroups({ groups: [groupId] })
    assert.ok(!(await admin.listGroups()).has(groupId))
  },
  'removes a member from a group': async () => {
    const [topic, groupId] = [await newTopic(), unique('group')]
    const one = await member(groupId, topic)
    await until(() => one.partitions().length === 1, 'the join')
    const before = one.consumer.memberId
    await admin.removeMembersFromConsumerGroup({ groupId, members: [{ memberId: before, reason: 'asked for' }] })
    await until(() => one.consumer.memberId !== before, 'a member id of its own')
    await one.leave()
  },
  'alters and deletes offsets of a group': async () => {
    const [topic, groupId] = [await newTopic(), unique('group')]
    await produce(topic, ['a', 'b', 'c'].map(value => ({ value })))
    await admin.alterConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionOffsets: [{ partition: 0, offset: 2n }] }] })
    assert.equal(await committedOffset(groupId, topic), 2n)
    await admin.deleteConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionIndexes: [0] }] })
    assert.ok([undefined, -1n].includes(await committedOffset(groupId, topic)))
  },
  'describes and alters configs of a topic': async () => {
    const topic = await newTopic(1, { 'retention.ms': '120000' })
    const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }
    const value = async name => {
      const [{ configs }] = await admin.describeConfigs({ resources: [{ ...resource, configurationKeys: [name] }], includeDocumentation: true })
      assert.ok(configs[0].documentation)
      return configs[0].value
    }
    assert.equal(await value('retention.ms'), '120000')
    const { SET, DELETE, APPEND } = IncrementalAlterConfigOperationTypes
    await admin.incrementalAlterConfigs({
      resources: [{
        ...resource,
        configs: [
          { name: 'segment.bytes', configOperation: SET, value: '2097152' },
          { name: 'cleanup.policy', configOperation: APPEND, value: 'compact' },
          { name: 'retention.ms', configOperation: DELETE }
        ]
      }]
    })
    assert.deepEqual(
      [await value('segment.bytes'), await value('cleanup.policy'), await value('retention.ms')],
      ['2097152', 'delete,compact', '604800000'])
    await admin.alterConfigs({ resources: [{ ...resource, configs: [{ name: 'retention.ms', value: '60000' }] }] })
    assert.deepEqual([await value('retention.ms'), await value('cleanup.policy')], ['60000', 'delete'])
    await fails(admin.incrementalAlterConfigs({
      resources: [{ ...resource, configs: [{ name: 'segment.bytes', configOperation: SET, value: 'many' }] }]
    }), 'INVALID_CONFIG')
  },
  'describes configs of a broker': async () => {
    const { brokers } = await admin.metadata({ topics: [] })
    const [node] = brokers.keys()
    const [{ configs }] = await admin.describeConfigs({ resources: [{ resourceType: ConfigResourceTypes.BROKER, resourceName: `${node}` }] })
    const found = Object.fromEntries(configs.map(each => [each.name, each]))
    assert.equal(found['node.id'].value, `${node}`)
    assert.equal(found['node.id'].readOnly, true)
  },
  'adds partitions, and is refused fewer': async () => {
    const topic = await newTopic(2)
    await admin.createPartitions({ topics: [{ name: topic, count: 5, assignments: null }] })
    await until(async () => {
      const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true })
      return topics.get(topic).partitionsCount === 5
    }, 'five partitions')
    await fails(admin.createPartitions({ topics: [{ name: topic, count: 3, assignments: null }] }), 'INVALID_PARTITIONS')
  },
  'deletes records, and is refused beyond the end': async () => {
    const topic = await newTopic()
    await produce(topic, ['a', 'b', 'c'].map(value => ({ value })))
    const remove = offset => admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset }] }] })
    const [{ partitions: [{ lowWatermark }] }] = await remove(2n)
    assert.equal(lowWatermark, 2n)
    assert.equal(await offsetAt(topic, ListOffsetTimestamps.EARLIEST), 2n)
    assert.deepEqual(values(await consume(topic, 1)), ['c'])
    await fails(remove(7n), 'OFFSET_OUT_OF_RANGE')
  },
  'describes log directories': async () => {
    const topic = await newTopic()
    await produce(topic, [{ value: 'v'.repeat(1000) }])
    const [{ results }] = await admin.describeLogDirs({ topics: [{ name: topic, partitions: [0] }] })
    const [partition] = results.flatMap(each => each.topics).find(each => each.name === topic).partitions
    assert.ok(partition.partitionSize > 1000n)
  },
  'deletes topics': async () => {
    const topic = await newTopic()
    await admin.deleteTopics({ topics: [topic] })
    await until(async () => !(await admin.listTopics()).includes(topic), 'no such topic')
    await fails(admin.deleteTopics({ topics: [topic] }), 'UNKNOWN_TOPIC_OR_PARTITION')
  },
  'goes on after its connections were cut': async () => {
    const topic = await newTopic()
    const send = (producer, value) => producer.send({ messages: [{ topic, value }], acks: -1 })
    await withProducer({}, async producer => {
      await send(producer, 'before')
      cutConnections()
      await send(producer, 'after')
    })
    assert.deepEqual(values(await consume(topic, 2)), ['before', 'after'])
    assert.ok((await admin.listTopics()).includes(topic))
  },
  'manages ACLs': whenSecured(async () => {
    const resourceName = unique('acl')
    const principal = `User:${unique('user')}`
    const acl = {
      resourceType: ResourceTypes.TOPIC,
      resourceName,
      resourcePatternType: ResourcePatternTypes.PREFIXED,
      principal,
      host: '*',
      operation: AclOperations.READ,
      permissionType: AclPermissionTypes.ALLOW
    }
    await admin.createAcls({ creations: [acl] })
    const found = await until(async () => (await admin.describeAcls({ filter: acl }))[0], 'the ACL')
    assert.equal(found.resourceName, resourceName)
    assert.deepEqual(found.acls.map(each => each.principal), [principal])
    assert.equal((await admin.deleteAcls({ filters: [acl] })).length, 1)
    await until(async () => (await admin.describeAcls({ filter: acl })).length === 0, 'its end')
  }),
  'is refused what an ACL denies, until it is gone': whenLoggedIn(async () => {
    const topic = await newTopic()
    const denial = {
      resourceType: ResourceTypes.TOPIC,
      resourceName: topic,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: `User:${guest.username}`,
      host: '*',
      operation: AclOperations.WRITE,
      permissionType: AclPermissionTypes.DENY
    }
    await admin.createAcls({ creations: [denial] })
    const sasl = { mechanism: 'SCRAM-SHA-512', ...guest }
    await withProducer({ sasl, retries: 0 }, async producer => {
      const sent = () => producer.send({ acks: -1, messages: [{ topic, value: 'v' }] }).then(() => '', error =>
        findErrorBy(error, 'apiId', 'TOPIC_AUTHORIZATION_FAILED') ? 'denied' : error.message)
      await until(async () => await sent() === 'denied', 'the denial')
      await admin.deleteAcls({ filters: [denial] })
      // Where there is no ACL of a resource, everybody is let in.
      await until(async () => await sent() === '', 'the permission')
    })
  }),
  'manages client quotas': async () => {
    const entityName = unique('client')
    const alter = op => admin.alterClientQuotas({
      entries: [{ entities: [{ entityType: 'client-id', entityName }], ops: [{ key: 'producer_byte_rate', ...op }] }]
    })
    const described = () => admin.describeClientQuotas({
      components: [{ entityType: 'client-id', matchType: ClientQuotaMatchTypes.EXACT, match: entityName }], strict: true
    })
    await alter({ value: 1e6, remove: false })
    const found = await until(async () => (await described())[0], 'the quota')
    assert.deepEqual(found.values, [{ key: 'producer_byte_rate', value: 1e6 }])
    await alter({ remove: true })
    await until(async () => (await described()).length === 0, 'its end')
  }
}

await walk(steps)
