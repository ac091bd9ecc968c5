"""Topics, partitions, configurations, metadata in conversations: transcripts/ has Apache Kafka's answers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import incremental_alter_configs_request as incremental
from ottla.protocol.messages.alter_configs_request import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from ottla.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from support.clients.transcript import Transcript
from support.clients.wire import WireClient, batch, wait_for
from support.servers.cluster import Cluster

Begin = Callable[[str], Transcript]
UNKNOWN_ID = uuid.UUID(int=12345)
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def new_topic(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> CreatableTopic:
    """`assignments` maps partitions to brokers, `configs` names to values."""
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in fields.get("assignments", {}).items()
    ]
    configs = [
        CreatableTopicConfig(name=name, value=value) for name, value in fields.get("configs", {}).items()
    ]
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=assignments,
        configs=configs,
    )


def without_configs(response: Any) -> None:
    """The values of all settings are compared elsewhere."""
    for topic in response.topics:
        topic.configs = []


def test_creating_topics(transcript: Begin) -> None:
    talk = transcript("creating_topics")
    me = talk.prefix

    def create(*topics: CreatableTopic, version: int = 7, **fields: Any) -> Any:
        return talk.say(CreateTopicsRequest(topics=list(topics), **fields), version, without_configs)

    talk.title("every version")
    for version in range(2, 8):
        create(new_topic(f"{me}-v{version}", 2), version=version)
    talk.title("defaults, assignments, dry runs")
    create(new_topic(f"{me}-default", -1, -1))
    create(new_topic(f"{me}-assigned", -1, -1, assignments={0: [1], 1: [1]}))
    create(new_topic(f"{me}-dry", 3), validate_only=True)
    create(new_topic(f"{me}-dry", 3), validate_only=True)
    create(new_topic(f"{me}-v7"), validate_only=True)
    create()
    talk.title("one good, one bad, one twice")
    create(new_topic(f"{me}-good"), new_topic(f"{me}-v2"), new_topic(f"{me}-twice"), new_topic(f"{me}-twice"))
    talk.title("names")
    for name in ("", ".", "..", "a b", "a/b", "x" * 249 + "y", "\u00fc"):
        create(new_topic(name))
    create(new_topic(f"{me}.dot"))
    create(new_topic(f"{me}_dot"))
    talk.title("counts")
    for partitions, replicas in [(0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 32767), (2147483647, 1)]:
        create(new_topic(f"{me}-bad", partitions, replicas))
    talk.title("assignments")
    bad: list[dict[int, list[int]]] = [
        {1: [1]},
        {0: [1], 2: [1]},
        {0: []},
        {0: [1, 1]},
        {0: [99]},
        {0: [-1]},
        {0: [1], 1: [1, 99]},
    ]
    for assignments in bad:
        create(new_topic(f"{me}-bad", -1, -1, assignments=assignments))
    create(new_topic(f"{me}-bad", 2, -1, assignments={0: [1]}))
    create(new_topic(f"{me}-bad", -1, 1, assignments={0: [1]}))
    talk.title("configurations")
    settings: list[tuple[str, str | None]] = [
        ("no.such.setting", "1"),
        ("retention.ms", "never"),
        ("retention.ms", "-2"),
        ("retention.ms", None),
        ("cleanup.policy", "burn"),
        ("cleanup.policy", ""),
        ("compression.type", "rar"),
        ("min.insync.replicas", "0"),
        ("segment.bytes", "1"),
        ("message.timestamp.type", "Never"),
        ("unclean.leader.election.enable", "perhaps"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("remote.storage.enable", "true"),
    ]
    for number, (name, value) in enumerate(settings):
        create(new_topic(f"{me}-{number}", configs={name: value}))


def test_deleting_topics(transcript: Begin) -> None:
    talk = transcript("deleting_topics")
    me = talk.prefix
    for number in range(1, 8):
        talk.wire.create_topic(f"{me}-{number}")
    for version in range(1, 6):
        talk.say(DeleteTopicsRequest(topic_names=[f"{me}-{version}"], timeout_ms=10_000), version)
        talk.say(DeleteTopicsRequest(topic_names=[f"{me}-{version}"], timeout_ms=10_000), version)
    talk.title("by id")

    def delete(*topics: DeleteTopicState) -> Any:
        return talk.say(DeleteTopicsRequest(topics=list(topics), timeout_ms=10_000), 6)

    topic_id = talk.wire.topic_id(f"{me}-6")
    delete(DeleteTopicState(topic_id=topic_id))
    delete(DeleteTopicState(topic_id=topic_id))
    delete(DeleteTopicState(topic_id=UNKNOWN_ID))
    delete(DeleteTopicState(name=f"{me}-not-there"))
    talk.title("named twice, not named, named in two ways")
    delete(DeleteTopicState(name=f"{me}-7"), DeleteTopicState(name=f"{me}-7"))
    delete(DeleteTopicState(name=None))
    delete(DeleteTopicState(name=f"{me}-7", topic_id=talk.wire.topic_id(f"{me}-7")))
    delete(DeleteTopicState(name=f"{me}-7"))
    delete()


def test_adding_partitions(transcript: Begin) -> None:
    talk = transcript("adding_partitions")
    me = talk.prefix
    talk.wire.create_topic(me, partitions=2)

    def grow(
        count: int, brokers: list[list[int]] | None = None, topic: str = me, version: int = 3, **fields: Any
    ) -> Any:
        assignments = None if brokers is None else [CreatePartitionsAssignment(broker_ids=b) for b in brokers]
        topics = [CreatePartitionsTopic(name=topic, count=count, assignments=assignments)]
        return talk.say(CreatePartitionsRequest(topics=topics, timeout_ms=10_000, **fields), version)

    grow(3, validate_only=True)
    for version in range(4):
        grow(3 + version, version=version)
    talk.title("not fewer, not as many, not none, not too many")
    for count in (5, 6, 0, -1):
        grow(count)
    talk.title("with assignments")
    grow(8, [[1], [1]])
    grow(10, [[1]])
    grow(9, [[99]])
    grow(9, [[]])
    grow(9, [[1, 1]])
    talk.title("other topics")
    grow(3, topic=f"{me}-not-there")
    topics = [CreatePartitionsTopic(name=me, count=9, assignments=None) for _ in range(2)]
    talk.say(CreatePartitionsRequest(topics=topics, timeout_ms=10_000), 3)
    wait_for(lambda: len(talk.wire.topic_metadata(me).topics[0].partitions) == 8)


def test_describing_configs(transcript: Begin) -> None:
    talk = transcript("describing_configs")
    me = talk.prefix
    talk.wire.create_topic(me, config={"retention.ms": "60000"})

    def describe(kind: int, name: str, keys: list[str] | None, version: int = 4, **fields: Any) -> Any:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        return talk.say(DescribeConfigsRequest(resources=[resource], **fields), version)

    keys = ["retention.ms", "segment.bytes", "cleanup.policy", "no.such.setting"]
    for version in range(1, 5):
        describe(TOPIC, me, keys, version)
    for version in range(1, 5):
        describe(TOPIC, me, keys, version, include_synonyms=True)
    talk.title("no keys are all keys only when they are null")
    describe(TOPIC, me, [])
    talk.title("brokers")
    broker_keys = ["offsets.topic.num.partitions", "log.retention.ms", "num.partitions"]
    broker_keys += ["group.initial.rebalance.delay.ms", "message.max.bytes"]
    describe(BROKER, "1", broker_keys, include_synonyms=True)
    describe(BROKER, "", broker_keys)
    describe(BROKER, "99", broker_keys)
    describe(BROKER, "one", broker_keys)
    talk.title("what is not there")
    describe(TOPIC, f"{me}-not-there", None)
    describe(TOPIC, "not/a/name", None)
    describe(TOPIC, "", None)
    describe(77, me, None)


def test_changing_configs(transcript: Begin) -> None:
    talk = transcript("changing_configs")
    me = talk.prefix
    talk.wire.create_topic(me, config={"retention.ms": "60000", "cleanup.policy": "compact"})

    def change(
        *changes: tuple[int, str, str | None],
        kind: int = TOPIC,
        name: str = me,
        version: int = 1,
        **fields: Any,
    ) -> Any:
        configs = [
            incremental.AlterableConfig(name=key, config_operation=operation, value=value)
            for operation, key, value in changes
        ]
        resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        return talk.say(incremental.IncrementalAlterConfigsRequest(resources=[resource], **fields), version)

    def settings() -> dict[str, str]:
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=me, configuration_keys=None)
        (result,) = talk.wire.call(DescribeConfigsRequest(resources=[resource]), 4).results
        return {config.name: config.value for config in result.configs if config.config_source == 1}

    def settled(**expected: str) -> None:
        wanted = {key.replace("_", "."): value for key, value in expected.items()}
        wait_for(lambda: settings() == wanted)
        talk.lines.append(f"= {' '.join(f'{key}={value}' for key, value in sorted(wanted.items()))}")

    talk.title("set, delete, append, subtract")
    change((SET, "segment.bytes", "1048576"), (DELETE, "retention.ms", None))
    settled(segment_bytes="1048576", cleanup_policy="compact")
    change((APPEND, "cleanup.policy", "delete"), version=0)
    settled(segment_bytes="1048576", cleanup_policy="compact,delete")
    change((SUBTRACT, "cleanup.policy", "compact"))
    settled(segment_bytes="1048576", cleanup_policy="delete")
    change((DELETE, "cleanup.policy", None), (DELETE, "never.set", None))
    change((DELETE, "cleanup.policy", None))
    settled(segment_bytes="1048576")
    change((SET, "retention.ms", "1"), validate_only=True)
    talk.title("refusals, which change nothing")
    change((SET, "no.such.setting", "1"))
    change((SET, "segment.bytes", "1"))
    change((SET, "segment.bytes", "big"))
    change((SET, "segment.bytes", None))
    change((SET, "retention.ms", "1"), (SET, "segment.bytes", "x"))
    change((SET, "retention.ms", "1"), (SET, "retention.ms", "2"))
    change((SET, "retention.ms", "1"), (DELETE, "retention.ms", None))
    change((APPEND, "retention.ms", "1"))
    change((SUBTRACT, "retention.ms", "1"))
    change((APPEND, "cleanup.policy", "burn"))
    change((SET, "", "1"))
    change((APPEND, "cleanup.policy", None))
    change(name=f"{me}-not-there")
    change((SET, "retention.ms", "1"), name=f"{me}-not-there")
    change((SET, "retention.ms", "1"), name="")
    change((SET, "retention.ms", "1"), kind=77)
    settled(segment_bytes="1048576")
    talk.title("brokers")
    change((SET, "node.id", "7"), kind=BROKER, name="1")
    change((SET, "log.retention.ms", "soon"), kind=BROKER, name="1")
    change((SET, "log.retention.ms", "1"), kind=BROKER, name="99")
    change((SET, "log.retention.ms", "1"), kind=BROKER, name="one")
    talk.title("the old way replaces everything")

    def replace(configs: dict[str, str | None], name: str = me, version: int = 2, **fields: Any) -> Any:
        entries = [AlterableConfig(name=key, value=value) for key, value in configs.items()]
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=entries)
        return talk.say(AlterConfigsRequest(resources=[resource], **fields), version)

    replace({"retention.ms": "5000"}, validate_only=True)
    replace({"retention.ms": "5000", "max.message.bytes": "100"})
    settled(retention_ms="5000", max_message_bytes="100")
    for version in range(2):
        replace({"retention.ms": f"{version}"}, version=version)
        settled(retention_ms=f"{version}")
    replace({"retention.ms": "x"})
    replace({"no.such.setting": "1"})
    replace({"retention.ms": None})
    replace({"retention.ms": "1"}, name=f"{me}-not-there")
    settled(retention_ms="1")
    replace({})
    settled()


def test_metadata(transcript: Begin) -> None:
    talk = transcript("metadata")
    me = talk.prefix
    talk.wire.create_topic(me, partitions=2)

    def ask(*topics: MetadataRequestTopic, version: int = 13, create: bool = False, **fields: Any) -> Any:
        return talk.say(
            MetadataRequest(topics=list(topics), allow_auto_topic_creation=create, **fields), version
        )

    talk.title("every version")
    for version in range(14):
        ask(MetadataRequestTopic(name=me), version=version, create=version < 4)
    talk.title("no topics")
    for version in range(1, 14):
        ask(version=version, create=version < 4)
    talk.title("by id")
    for version in (12, 13):
        ask(MetadataRequestTopic(name=None, topic_id=talk.wire.topic_id(me)), version=version)
        ask(MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID), version=version)
    talk.title("what is not there")
    for version in (0, 1, 4, 9, 10, 12, 13):
        ask(MetadataRequestTopic(name="not/a/name"), version=version, create=version < 4)
    ask(MetadataRequestTopic(name=f"{me}-not-there"), MetadataRequestTopic(name=me))
    ask(MetadataRequestTopic(name=""))
    ask(MetadataRequestTopic(name=me), MetadataRequestTopic(name=me))
    talk.title("creation on the way")
    # Kafka creates after the answer, ottla before it: only the result is the same
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"{me}.new")])
    wait_for(lambda: talk.wire.call(request, 13).topics[0].error_code == ErrorCode.NONE)
    ask(MetadataRequestTopic(name=f"{me}.new"))
    talk.title("what a client may do")
    allowed = {"include_topic_authorized_operations": True}
    ask(MetadataRequestTopic(name=me), **allowed)
    ask(MetadataRequestTopic(name=me), version=8, include_cluster_authorized_operations=True)


def test_describing_the_cluster(transcript: Begin) -> None:
    talk = transcript("describing_the_cluster")
    for version in range(3):
        talk.say(DescribeClusterRequest(), version)
    talk.say(DescribeClusterRequest(include_cluster_authorized_operations=True), 2)
    talk.say(DescribeClusterRequest(include_fenced_brokers=True), 2)
    talk.say(DescribeClusterRequest(endpoint_type=2), 1)
    talk.say(DescribeClusterRequest(endpoint_type=9), 1)


def test_describing_topics_in_pages(transcript: Begin) -> None:
    talk = transcript("describing_topics_in_pages")
    me = talk.prefix
    for letter, partitions in [("a", 3), ("b", 2), ("c", 1)]:
        talk.wire.create_topic(f"{me}-{letter}", partitions=partitions)
    names = [f"{me}-{letter}" for letter in "cab"]

    def describe(*topics: str, cursor: tuple[str, int] | None = None, limit: int = 2000) -> Any:
        start = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
        return talk.say(
            DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in topics],
                response_partition_limit=limit,
                cursor=start,
            ),
            0,
        )

    talk.title("all at once")
    describe(*names)
    describe(names[0], f"{me}-not-there", "not/a/name")
    talk.title("two partitions a page")
    answer = describe(*names, limit=2)
    for _ in range(10):
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
        answer = describe(*names, cursor=cursor, limit=2)
    talk.title("cursors")
    describe(*names, cursor=(f"{me}-a", 2))
    describe(*names, cursor=(f"{me}-a", 9))
    describe(*names, cursor=(f"{me}-bb", 0))
    describe(*names, cursor=(f"{me}-a", -1))
    describe(*names, limit=0)
    describe(*names, limit=-5)


def test_log_directories(transcript: Begin) -> None:
    talk = transcript("log_directories")
    me = talk.prefix
    talk.wire.create_topic(me, partitions=2)
    talk.wire.produce(me, 1, batch(10))

    def only_mine(response: Any) -> None:
        for result in response.results:
            result.topics = [topic for topic in result.topics if topic.name.startswith(me)]

    asked = [DescribableLogDirTopic(topic=me, partitions=[0, 1, 7])]
    for version in range(1, 6):
        talk.say(DescribeLogDirsRequest(topics=asked), version, only_mine)
    talk.say(DescribeLogDirsRequest(topics=None), 4, only_mine)
    talk.say(DescribeLogDirsRequest(topics=[]), 4, only_mine)
    missing = [DescribableLogDirTopic(topic=f"{me}-not-there", partitions=[0])]
    talk.say(DescribeLogDirsRequest(topics=missing), 4, only_mine)


def test_a_replica_stays_in_the_only_directory(cluster: Cluster) -> None:
    name = f"stays-{uuid.uuid4().hex}"
    long_name = name.ljust(220, "x")
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(name, partitions=2)
        wire.create_topic(long_name)
        (only,) = wire.call(DescribeLogDirsRequest(topics=[])).results

        def told(path: str, topic: str, partitions: list[int], version: int = 2) -> dict[int, int]:
            moved = AlterReplicaLogDirTopic(name=topic, partitions=partitions)
            request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[moved])])
            (answer,) = wire.call(request, version).results
            assert answer.topic_name == topic
            return {each.partition_index: each.error_code for each in answer.partitions}

        for version in (1, 2):
            assert told(only.log_dir, name, [0, 1, 7], version) == {
                0: ErrorCode.NONE,
                1: ErrorCode.NONE,
                7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
        assert told(only.log_dir, f"not-{name}", [0]) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert told(f"{only.log_dir}-not", name, [0]) == {0: ErrorCode.LOG_DIR_NOT_FOUND}
        assert told(f"{only.log_dir}-not", f"not-{name}", [0]) == {0: ErrorCode.LOG_DIR_NOT_FOUND}
        # a file's name has no room for the name of a replica under way
        assert told(only.log_dir, long_name, [0]) == {0: ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert told(f"{only.log_dir}-not", long_name, [0]) == {0: ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert wire.call(AlterReplicaLogDirsRequest(dirs=[])).results == []
