"""confluent-kafka: what its users do with producers, consumers, groups and the admin client.

The tests are ours. Its source package holds none that run: only the two programs of `kafkatest` for Kafka's
system tests, which are written for Python 2. Every call of the client is bounded in time.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from conformance.suite import Suite, Target, TestResult, Verdict, in_every_way

TIMEOUT_S = 20.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PROTOCOLS = ("classic", "consumer")
# What librdkafka says of the errors that the tests provoke.
CLIENT_LOG = logging.getLogger(__name__)
CLIENT_LOG.addHandler(logging.NullHandler())
CLIENT_LOG.propagate = False


class Failed(Exception):
    """A test's expectation did not come true."""


def expect(got: object, wanted: object) -> None:
    """Raises Failed unless both are equal."""
    if got != wanted:
        raise Failed(f"got {got!r:.150}, not {wanted!r:.150}")


class Cluster:
    """One broker, and the clients of it that tests need."""

    def __init__(self, access: Mapping[str, str]) -> None:
        self.bootstrap = access["bootstrap.servers"]
        self._access = access
        self.admin = AdminClient(self.settings())

    def settings(self, **more: object) -> dict[str, object]:
        """Client settings; underscores stand for dots."""
        dotted = {name.replace("_", "."): value for name, value in more.items()}
        common = {**self._access, "socket.timeout.ms": 10_000, "logger": CLIENT_LOG}
        return {**common, **dotted}

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic; underscores in the names of its configs stand for dots."""
        name = unique("confluent")
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        self.wait(self.admin.create_topics([NewTopic(name, partitions, 1, config=dotted)]))
        return name

    def wait(self, futures: dict) -> list:
        return [future.result(TIMEOUT_S) for future in futures.values()]

    def produce(
        self, topic: str, *values: bytes | None, partition: int = 0, **settings: object
    ) -> list[Message]:
        """Send values to a partition and return what was delivered. Raises KafkaException."""
        producer = Producer(self.settings(**settings))
        delivered: list[Message] = []
        failed: list[KafkaError] = []
        for value in values:
            producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, message: (
                    failed.append(error) if error else delivered.append(message)
                ),
            )
        if producer.flush(TIMEOUT_S):
            raise Failed("not delivered in time")
        if failed:
            raise KafkaException(failed[0])
        return delivered

    def consumer(self, **settings: object) -> Consumer:
        defaults = {"group_id": unique("group"), "enable_auto_commit": False, "fetch_wait_max_ms": 200}
        return Consumer(self.settings(**{**defaults, **settings}))

    @contextmanager
    def member(self, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
        """A member of a group that has subscribed to a topic."""
        bounds = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300} if protocol == "classic" else {}
        consumer = self.consumer(
            group_id=group, group_protocol=protocol, auto_offset_reset="earliest", **bounds
        )
        consumer.subscribe([topic])
        try:
            yield consumer
        finally:
            consumer.close()

    def read(
        self, topic: str, count: int, offset: int = OFFSET_BEGINNING, **settings: object
    ) -> list[Message]:
        """The first messages of partition 0 from an offset."""
        consumer = self.consumer(**settings)
        consumer.assign([TopicPartition(topic, 0, offset)])
        try:
            return take(consumer, count)
        finally:
            consumer.close()


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def take(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count:
        message = consumer.poll(0.2)
        if message is not None and message.error():
            raise KafkaException(message.error())
        if message is not None:
            found.append(message)
        elif time.monotonic() > deadline:
            raise Failed(f"{len(found)} of {count} messages within {TIMEOUT_S:.0f} s")
    return found


def until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {TIMEOUT_S:.0f} s")
        time.sleep(0.02)


def values(messages: Sequence[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def fails(code: int, act: Callable[[], object], or_code: int | None = None) -> None:
    """Raises Failed unless `act` fails with this error code, or the other one."""
    try:
        act()
    except KafkaException as error:
        found = error.args[0].code()
        if found not in (code, or_code):
            raise Failed(f"error {found}, not {code}: {error.args[0].str()}") from error
        return
    raise Failed(f"it succeeded; expected error {code}")


def describes_the_cluster(cluster: Cluster) -> None:
    described = cluster.admin.describe_cluster().result(TIMEOUT_S)
    expect([f"{node.host}:{node.port}" for node in described.nodes], [cluster.bootstrap])
    expect(described.controller.id, described.nodes[0].id)


def creates_topics(cluster: Cluster) -> None:
    topic = cluster.topic(3, retention_ms="120000")
    (described,) = cluster.wait(cluster.admin.describe_topics(TopicCollection([topic])))
    expect([partition.id for partition in described.partitions], [0, 1, 2])
    expect(topic in cluster.admin.list_topics(timeout=TIMEOUT_S).topics, True)


def refused_topics(cluster: Cluster) -> None:
    def create(name: str, replicas: int = 1, **configs: str) -> None:
        cluster.wait(cluster.admin.create_topics([NewTopic(name, 1, replicas, config=configs)]))

    topic = cluster.topic()
    fails(KafkaError.TOPIC_ALREADY_EXISTS, lambda: create(topic))
    fails(KafkaError.TOPIC_EXCEPTION, lambda: create("no spaces"))
    fails(KafkaError.INVALID_REPLICATION_FACTOR, lambda: create(unique("confluent"), 3))
    fails(KafkaError.INVALID_CONFIG, lambda: create(unique("confluent"), **{"cleanup.policy": "shred"}))


def unknown_topic(cluster: Cluster) -> None:
    missing = unique("missing")
    # librdkafka tells what the broker said, or its own code once it has waited for the topic to appear.
    fails(
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        lambda: cluster.produce(missing, b"a", topic_metadata_propagation_max_ms=500),
        or_code=KafkaError._UNKNOWN_TOPIC,
    )
    reading = TopicCollection([missing])
    fails(KafkaError.UNKNOWN_TOPIC_OR_PART, lambda: cluster.wait(cluster.admin.describe_topics(reading)))


def codec(name: str) -> Callable[[Cluster], None]:
    def carries(cluster: Cluster) -> None:
        topic, sent = cluster.topic(), [b"value %d " % number + b"x" * 100 for number in range(500)]
        cluster.produce(topic, *sent, compression_type=name)
        expect(values(cluster.read(topic, 500)), sent)

    return carries


def acknowledgements(acks: str) -> Callable[[Cluster], None]:
    def produces(cluster: Cluster) -> None:
        topic = cluster.topic()
        delivered = cluster.produce(topic, b"a", b"b", acks=acks)
        if acks != "0":
            expect([message.offset() for message in delivered], [0, 1])
        expect(values(cluster.read(topic, 2)), [b"a", b"b"])

    return produces


def keeps_what_was_sent(cluster: Cluster) -> None:
    topic, producer = cluster.topic(), Producer(cluster.settings())
    headers = [("trace", b"abc"), ("trace", b"def"), ("null", None)]
    producer.produce(topic, b"v", b"k", 0, timestamp=1_600_000_000_123, headers=headers)
    producer.produce(topic, None, b"gone", 0)
    producer.produce(topic, b"", None, 0)
    expect(producer.flush(TIMEOUT_S), 0)
    first, second, third = cluster.read(topic, 3)
    expect((first.key(), first.timestamp()[1], first.headers()), (b"k", 1_600_000_000_123, headers))
    expect((second.key(), second.value(), third.key()), (b"gone", None, None))


def sizes(cluster: Cluster) -> None:
    topic = cluster.topic(max_message_bytes="100000")
    cluster.produce(topic, b"l" * 99_900)
    expect(len(cluster.read(topic, 1)[0].value()), 99_900)
    fails(KafkaError.MSG_SIZE_TOO_LARGE, lambda: cluster.produce(topic, b"l" * 100_001))


def compacted(cluster: Cluster) -> None:
    topic = cluster.topic(cleanup_policy="compact")
    fails(KafkaError.INVALID_RECORD, lambda: cluster.produce(topic, b"no key"))


def idempotent(cluster: Cluster) -> None:
    topic, sent = cluster.topic(), [b"%d" % number for number in range(1000)]
    cluster.produce(topic, *sent, enable_idempotence=True)
    expect(values(cluster.read(topic, 1000)), sent)


def transactions(cluster: Cluster) -> None:
    topic, group = cluster.topic(), unique("group")
    producer = Producer(cluster.settings(transactional_id=unique("tx")))
    producer.init_transactions(TIMEOUT_S)
    reader = cluster.consumer(group_id=group)
    for value, offset in ((b"a", 5), (b"aborted", 9), (b"b", 7)):
        producer.begin_transaction()
        producer.produce(topic, value)
        metadata = reader.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, TIMEOUT_S)
        if value == b"aborted":
            # an abort drops what has not been sent yet
            expect(producer.flush(TIMEOUT_S), 0)
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    committed = reader.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    reader.close()
    expect(committed[0].offset, 7)
    expect(values(cluster.read(topic, 2, isolation_level="read_committed")), [b"a", b"b"])
    expect(values(cluster.read(topic, 3, isolation_level="read_uncommitted")), [b"a", b"aborted", b"b"])


def fenced(cluster: Cluster) -> None:
    topic, name = cluster.topic(), unique("tx")
    older, newer = (Producer(cluster.settings(transactional_id=name)) for _ in range(2))
    older.init_transactions(TIMEOUT_S)
    older.begin_transaction()
    older.produce(topic, b"old")
    older.flush(TIMEOUT_S)
    newer.init_transactions(TIMEOUT_S)
    fails(KafkaError._FENCED, lambda: older.commit_transaction(TIMEOUT_S))


def offsets(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = Producer(cluster.settings())
    for number in range(3):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=1_600_000_001_000 + 1000 * number)
    expect(producer.flush(TIMEOUT_S), 0)
    expect(values(cluster.read(topic, 2, 1)), [b"1", b"2"])
    consumer = cluster.consumer()
    expect(consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S), (0, 3))
    found = consumer.offsets_for_times([TopicPartition(topic, 0, 1_600_000_001_500)], TIMEOUT_S)
    consumer.close()
    expect(found[0].offset, 1)
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 3),
        (OffsetSpec.max_timestamp(), 2),
    ):
        (listed,) = cluster.wait(cluster.admin.list_offsets({TopicPartition(topic, 0): spec}))
        expect(listed.offset, offset)


def shares(protocol: str) -> Callable[[Cluster], None]:
    def partitions(cluster: Cluster) -> None:
        topic, group = cluster.topic(4), unique("group")
        with cluster.member(group, topic, protocol) as first:
            until("all partitions for one member", lambda: _owned(first) == 4)
            with cluster.member(group, topic, protocol) as second:
                until("two partitions each", lambda: (_owned(first), _owned(second)) == (2, 2))
            until("all partitions again", lambda: _owned(first) == 4)

    return partitions


def _owned(consumer: Consumer) -> int:
    consumer.poll(0.05)
    return len(consumer.assignment())


def goes_on(protocol: str) -> Callable[[Cluster], None]:
    def from_the_commit(cluster: Cluster) -> None:
        topic, group = cluster.topic(), unique("group")
        cluster.produce(topic, b"a", b"b", b"c", b"d")
        with cluster.member(group, topic, protocol) as first:
            expect(len(take(first, 4)), 4)
            first.commit(offsets=[TopicPartition(topic, 0, 2, "half")], asynchronous=False)
            (committed,) = first.committed([TopicPartition(topic, 0)], TIMEOUT_S)
            expect((committed.offset, committed.metadata), (2, "half"))
        with cluster.member(group, topic, protocol) as second:
            expect(values(take(second, 2)), [b"c", b"d"])

    return from_the_commit


def groups(protocol: str) -> Callable[[Cluster], None]:
    def administers(cluster: Cluster) -> None:
        topic, group = cluster.topic(2), unique("group")

        def delete() -> None:
            cluster.wait(cluster.admin.delete_consumer_groups([group]))

        with cluster.member(group, topic, protocol) as one:
            until("the join", lambda: _owned(one) == 2)
            (described,) = cluster.wait(cluster.admin.describe_consumer_groups([group]))
            expect(
                (described.state.name, len(described.members), described.type.name),
                ("STABLE", 1, protocol.upper()),
            )
            listed = cluster.admin.list_consumer_groups().result(TIMEOUT_S).valid
            expect(group in [each.group_id for each in listed], True)
            fails(KafkaError.NON_EMPTY_GROUP, delete)
            one.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
        cluster.wait(cluster.admin.alter_consumer_group_offsets([wanted]))
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0), TopicPartition(topic, 1)])
        (found,) = cluster.wait(cluster.admin.list_consumer_group_offsets([asked]))
        expect([each.offset for each in found.topic_partitions], [3, OFFSET_INVALID])
        delete()
        fails(KafkaError.GROUP_ID_NOT_FOUND, delete)

    return administers


def configs(cluster: Cluster) -> None:
    topic = cluster.topic(retention_ms="120000")

    def value(name: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return cluster.wait(cluster.admin.describe_configs([resource]))[0][name].value

    def alter(*changes: tuple[str, str | None, AlterConfigOpType]) -> None:
        entries = [ConfigEntry(name, new, incremental_operation=how) for name, new, how in changes]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        cluster.wait(cluster.admin.incremental_alter_configs([resource]))

    expect(value("retention.ms"), "120000")
    alter(
        ("segment.bytes", "2097152", AlterConfigOpType.SET),
        ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
        ("retention.ms", None, AlterConfigOpType.DELETE),
    )
    until("the new settings", lambda: value("segment.bytes") == "2097152")
    expect((value("cleanup.policy"), value("retention.ms")), ("delete,compact", "604800000"))
    fails(KafkaError.INVALID_CONFIG, lambda: alter(("segment.bytes", "many", AlterConfigOpType.SET)))


def adds_partitions(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    cluster.wait(cluster.admin.create_partitions([NewPartitions(topic, 5)]))
    until(
        "five partitions",
        lambda: len(cluster.admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 5,
    )
    fails(
        KafkaError.INVALID_PARTITIONS,
        lambda: cluster.wait(cluster.admin.create_partitions([NewPartitions(topic, 3)])),
    )


def deletes_records(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.produce(topic, b"a", b"b", b"c")
    (deleted,) = cluster.wait(cluster.admin.delete_records([TopicPartition(topic, 0, 2)]))
    expect(deleted.low_watermark, 2)
    expect(values(cluster.read(topic, 1)), [b"c"])
    beyond = [TopicPartition(topic, 0, 7)]
    fails(KafkaError.OFFSET_OUT_OF_RANGE, lambda: cluster.wait(cluster.admin.delete_records(beyond)))


def deletes_topics(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.wait(cluster.admin.delete_topics([topic]))
    fails(KafkaError.UNKNOWN_TOPIC_OR_PART, lambda: cluster.wait(cluster.admin.delete_topics([topic])))


def users(cluster: Cluster) -> None:
    name = unique("user")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5000)
    upsertion = UserScramCredentialUpsertion(name, info, b"secret")
    cluster.wait(cluster.admin.alter_user_scram_credentials([upsertion]))

    def described() -> list[tuple[ScramMechanism, int]]:
        try:
            (found,) = cluster.wait(cluster.admin.describe_user_scram_credentials([name]))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.RESOURCE_NOT_FOUND:
                raise
            return []
        return [(each.mechanism, each.iterations) for each in found.scram_credential_infos]

    until("the user", lambda: described() == [(info.mechanism, info.iterations)])
    deletion = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256)
    cluster.wait(cluster.admin.alter_user_scram_credentials([deletion]))
    until("its end", lambda: described() == [])


def acls(cluster: Cluster) -> None:
    """Without an authorizer, that there is none is told."""
    name, user = unique("acl"), f"User:{unique('user')}"
    fields = (ResourceType.TOPIC, name, ResourcePatternType.PREFIXED, user, "*")
    filters = AclBindingFilter(*fields, AclOperation.ANY, AclPermissionType.ANY)
    allowed = AclBinding(*fields, AclOperation.READ, AclPermissionType.ALLOW)
    if "security.protocol" not in cluster.settings():
        fails(KafkaError.SECURITY_DISABLED, lambda: cluster.wait(cluster.admin.create_acls([allowed])))
        return
    denied = AclBinding(*fields, AclOperation.WRITE, AclPermissionType.DENY)
    cluster.wait(cluster.admin.create_acls([allowed, denied]))
    until("both ACLs", lambda: len(cluster.admin.describe_acls(filters).result(TIMEOUT_S)) == 2)
    (deleted,) = cluster.wait(cluster.admin.delete_acls([filters]))
    expect(len(deleted), 2)
    until("their end", lambda: not cluster.admin.describe_acls(filters).result(TIMEOUT_S))


TESTS: tuple[tuple[str, Callable[[Cluster], None]], ...] = (
    ("describes the cluster", describes_the_cluster),
    ("creates topics with partitions and configs", creates_topics),
    ("is refused what no topic can be", refused_topics),
    ("is told of an unknown topic", unknown_topic),
    *((f"produces and consumes with codec {name}", codec(name)) for name in CODECS),
    *((f"produces with acks={acks}", acknowledgements(acks)) for acks in ("0", "1", "all")),
    ("keeps keys, headers, timestamps and null values", keeps_what_was_sent),
    ("produces up to max.message.bytes and is refused more", sizes),
    ("is refused a record without a key on a compacted topic", compacted),
    ("produces idempotently", idempotent),
    ("commits and aborts transactions, with offsets", transactions),
    ("is fenced by a newer producer of its transactional id", fenced),
    ("consumes from an offset, finds offsets by time, lists them", offsets),
    *((f"shares partitions in a group, protocol {name}", shares(name)) for name in PROTOCOLS),
    *((f"goes on from the committed offset, protocol {name}", goes_on(name)) for name in PROTOCOLS),
    *((f"administers groups, protocol {name}", groups(name)) for name in PROTOCOLS),
    ("describes and alters configs of a topic", configs),
    ("adds partitions, and is refused fewer", adds_partitions),
    ("deletes records, and is refused beyond the end", deletes_records),
    ("deletes topics", deletes_topics),
    ("manages users of SCRAM", users),
    ("manages ACLs, where there is an authorizer", acls),
)


def _run(target: Target) -> Sequence[TestResult]:
    cluster = Cluster(target.librdkafka())
    return [_result(name, test, cluster) for name, test in TESTS]


def _result(name: str, test: Callable[[Cluster], None], cluster: Cluster) -> TestResult:
    try:
        test(cluster)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return TestResult(name, Verdict.FAILED, reason)
    return TestResult(name, Verdict.PASSED)


SUITES = in_every_way(
    Suite(
        name="confluent-kafka",
        origin="ours, with confluent-kafka 2.16.1",
        run=_run,
        # The tests create their topics; one that springs up by itself would hide the error for a missing one.
        settings=(("auto.create.topics.enable", "false"),),
    )
)
