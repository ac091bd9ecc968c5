"""Every API with the operations that its sender needs, and the error that a refusal is told with.

The table of Apache Kafka 4.4's handlers (KafkaApis, ControllerApis), as data: the unit tests decide each row
with every operation, the conformance tests compare the rows with Apache Kafka's answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.protocol.apis import ApiKey, request_class
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.protocol.schema import Message, Struct, StructMeta

TOPIC_NAME: Final = "orders"
GROUP_ID: Final = "billing"
"""A classic group; names of groups of other kinds begin with it, and ACLs on groups are for the prefix."""
TRANSACTIONAL_ID: Final = "ledger"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
NAMES: Final = {TOPIC: TOPIC_NAME, GROUP: GROUP_ID, CLUSTER: CLUSTER_NAME, TRANSACTION: TRANSACTIONAL_ID}
REFUSALS: Final = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
Op = AclOperation
#: One step of a handler's authorization: any of these permissions lets the request pass it.
Step = tuple[tuple[ResourceType, AclOperation], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One request. `steps` are asked in their order; a refusal of each is told with its resource's error."""

    name: str
    key: ApiKey
    steps: tuple[Step, ...]
    version: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    at_controller: bool = False
    told_as: ErrorCode | None = None
    """The error of a refusal where it is not that of the resource."""

    def request(self, topic_id: uuid.UUID) -> Message:
        """The request; `topic_id` stands in place of TOPIC_ID."""
        made = filled(request_class(self.key), _with_id(self.fields, topic_id))
        assert isinstance(made, Message)
        return made

    def refusal(self, step: Step) -> ErrorCode:
        """The error of a client that doesn't pass this step."""
        return self.told_as or REFUSALS[step[-1][0]]


#: Stands in requests for the id of the topic.
TOPIC_ID: Final = uuid.UUID(int=1 << 64)


def _with_id(value: Any, topic_id: uuid.UUID) -> Any:
    match value:
        case Mapping():
            return {key: _with_id(each, topic_id) for key, each in value.items()}
        case list():
            return [_with_id(each, topic_id) for each in value]
        case uuid.UUID() if value == TOPIC_ID:
            return topic_id
        case _:
            return value


def filled(cls: Any, values: Mapping[str, Any]) -> Any:
    """A message of dictionaries and lists."""
    kinds = {each.name: each.kind for each in cls.FIELDS}
    return cls(**{name: _struct(kinds[name], value) for name, value in values.items()})


def _struct(kind: Any, value: Any) -> Any:
    if not isinstance(kind, StructMeta):
        return value
    if isinstance(value, list):
        return [filled(kind, each) for each in value]
    return None if value is None else filled(kind, value)


def errors_of(answer: Struct) -> set[ErrorCode]:
    """Every error anywhere in an answer."""
    return {code for code in _errors(answer) if code}


def _errors(value: Any) -> Iterator[ErrorCode]:
    if isinstance(value, list):
        for each in value:
            yield from _errors(each)
    if not isinstance(value, Struct):
        return
    for each in type(value).FIELDS:
        found = getattr(value, each.name)
        if each.name.endswith("error_code") and isinstance(found, int):
            yield ErrorCode(found)
        else:
            yield from _errors(found)


def needs(resource: ResourceType, *operations: AclOperation) -> Step:
    """One of these operations on a resource."""
    return tuple((resource, operation) for operation in operations)


READ_GROUP, DESCRIBE_GROUP = needs(GROUP, Op.READ), needs(GROUP, Op.DESCRIBE)
READ_TOPIC, DESCRIBE_TOPIC = needs(TOPIC, Op.READ), needs(TOPIC, Op.DESCRIBE)
WRITE_TRANSACTION = needs(TRANSACTION, Op.WRITE)
CLUSTER_ACTION, ALTER_CLUSTER = needs(CLUSTER, Op.CLUSTER_ACTION), needs(CLUSTER, Op.ALTER)
DESCRIBE_CLUSTER = needs(CLUSTER, Op.DESCRIBE)
MEMBER = str(uuid.UUID(int=7))
ONE_PARTITION = [{"partition_index": 0}]
BROKER, TOPIC_CONFIG, GROUP_CONFIG, METRICS, LOGGER = 4, 2, 32, 16, 8


def _produce(version: int, *, transactional: bool) -> dict[str, Any]:
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"name": TOPIC_NAME}
    batch = [NewRecord(key=b"k", value=b"v", timestamp=1_700_000_000_000)]
    records = (
        encode_batch(batch, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        if transactional
        else encode_batch(batch)
    )
    return {
        "transactional_id": TRANSACTIONAL_ID if transactional else None,
        "acks": 1,
        "timeout_ms": 1000,
        "topic_data": [{**topic, "partition_data": [{"index": 0, "records": records}]}],
    }


def _fetch(version: int, **more: Any) -> dict[str, Any]:
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": TOPIC_NAME}
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": [{**topic, "partitions": [partition]}], **more}


def _commit(version: int, by_id_from: int, **more: Any) -> dict[str, Any]:
    topic = {"topic_id": TOPIC_ID} if version >= by_id_from else {"name": TOPIC_NAME}
    partition = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
    return {"group_id": GROUP_ID, "topics": [{**topic, "partitions": [partition]}], **more}


def _configs(kind: int, name: str, *, incremental: bool) -> dict[str, Any]:
    change = {"name": "retention.ms", "value": "1000", **({"config_operation": 0} if incremental else {})}
    if kind == BROKER:
        change["name"] = "log.retention.ms"
    elif kind == GROUP_CONFIG:
        change.update(name="consumer.session.timeout.ms", value="50000")
    elif kind == METRICS:
        change.update(name="interval.ms", value="1000")
    elif kind == LOGGER:
        change.update(name="kafka.server.KafkaApis", value="INFO")
    resource = {"resource_type": kind, "resource_name": name, "configs": [change]}
    return {"validate_only": True, "resources": [resource]}


def _topology() -> dict[str, Any]:
    part = {"subtopology_id": "0", "source_topics": [TOPIC_NAME], "source_topic_regex": []}
    return {"epoch": 0, "subtopologies": [part]}


def _state(**partition: Any) -> dict[str, Any]:
    return {
        "group_id": GROUP_ID,
        "topics": [{"topic_id": TOPIC_ID, "partitions": [{"partition": 0, **partition}]}],
    }


_CONFIG_STEPS = {
    TOPIC_CONFIG: TOPIC,
    GROUP_CONFIG: GROUP,
    BROKER: CLUSTER,
    METRICS: CLUSTER,
}
_CONFIG_NAMES = {TOPIC_CONFIG: TOPIC_NAME, GROUP_CONFIG: GROUP_ID, BROKER: "", METRICS: "m"}
_CONFIG_WORDS = {
    TOPIC_CONFIG: "a topic",
    GROUP_CONFIG: "a group",
    BROKER: "brokers",
    METRICS: "client metrics",
}


def _config_cases() -> Iterator[Case]:
    for kind, resource in _CONFIG_STEPS.items():
        name, word = _CONFIG_NAMES[kind], _CONFIG_WORDS[kind]
        if name:
            described = {"resources": [{"resource_type": kind, "resource_name": name}]}
            step = needs(resource, Op.DESCRIBE_CONFIGS)
            yield Case(f"configs of {word} are described", ApiKey.DESCRIBE_CONFIGS, (step,), 4, described)
        step = needs(resource, Op.ALTER_CONFIGS)
        yield Case(
            f"configs of {word} are replaced",
            ApiKey.ALTER_CONFIGS,
            (step,),
            2,
            _configs(kind, name, incremental=False),
        )
        yield Case(
            f"configs of {word} are changed",
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            (step,),
            1,
            _configs(kind, name, incremental=True),
        )


def _batches(key: ApiKey, versions: tuple[int, ...], steps: tuple[Step, ...], make: Any) -> Iterator[Case]:
    for version in versions:
        yield Case(f"{key.name} {version}", key, steps, version, make(version))


CASES: Final[tuple[Case, ...]] = (
    *_batches(ApiKey.PRODUCE, (9, 13), (needs(TOPIC, Op.WRITE),), lambda v: _produce(v, transactional=False)),
    *_batches(
        ApiKey.PRODUCE,
        (11, 12),
        (WRITE_TRANSACTION, needs(TOPIC, Op.WRITE)),
        lambda v: _produce(v, transactional=True),
    ),
    *_batches(ApiKey.FETCH, (11, 12, 13, 17), (READ_TOPIC,), _fetch),
    Case(
        "a follower fetches",
        ApiKey.FETCH,
        (CLUSTER_ACTION,),
        12,
        _fetch(12, replica_id=9),
        told_as=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ),
    Case(
        "offsets are listed",
        ApiKey.LIST_OFFSETS,
        (DESCRIBE_TOPIC,),
        8,
        {
            "replica_id": -1,
            "topics": [{"name": TOPIC_NAME, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
    ),
    Case(
        "metadata by name",
        ApiKey.METADATA,
        (DESCRIBE_TOPIC,),
        12,
        {"topics": [{"name": TOPIC_NAME}], "allow_auto_topic_creation": False},
    ),
    Case(
        "metadata by id",
        ApiKey.METADATA,
        (DESCRIBE_TOPIC,),
        12,
        {"topics": [{"name": None, "topic_id": TOPIC_ID}], "allow_auto_topic_creation": False},
    ),
    Case(
        "partitions of topics are described",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        (DESCRIBE_TOPIC,),
        0,
        {"topics": [{"name": TOPIC_NAME}], "response_partition_limit": 10, "cursor": None},
    ),
    *_batches(ApiKey.OFFSET_COMMIT, (8, 10), (READ_GROUP, READ_TOPIC), lambda v: _commit(v, 10)),
    *_batches(
        ApiKey.TXN_OFFSET_COMMIT,
        (3, 5, 6),
        (WRITE_TRANSACTION, READ_GROUP, READ_TOPIC),
        lambda v: _commit(v, 6, transactional_id=TRANSACTIONAL_ID, producer_id=5, producer_epoch=0),
    ),
    Case(
        "offsets are fetched, 7",
        ApiKey.OFFSET_FETCH,
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
        7,
        {"group_id": GROUP_ID, "topics": [{"name": TOPIC_NAME, "partition_indexes": [0]}]},
    ),
    Case(
        "offsets are fetched, 1",
        ApiKey.OFFSET_FETCH,
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
        1,
        {"group_id": GROUP_ID, "topics": [{"name": TOPIC_NAME, "partition_indexes": [0]}]},
    ),
    Case(
        "offsets are fetched, 9",
        ApiKey.OFFSET_FETCH,
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
        9,
        {
            "groups": [
                {"group_id": GROUP_ID, "topics": [{"name": TOPIC_NAME, "partition_indexes": [0]}]},
            ]
        },
    ),
    Case(
        "offsets are fetched, 10",
        ApiKey.OFFSET_FETCH,
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
        10,
        {
            "groups": [
                {"group_id": GROUP_ID, "topics": [{"topic_id": TOPIC_ID, "partition_indexes": [0]}]},
            ]
        },
    ),
    Case(
        "offsets are deleted",
        ApiKey.OFFSET_DELETE,
        (needs(GROUP, Op.DELETE), READ_TOPIC),
        0,
        {"group_id": GROUP_ID, "topics": [{"name": TOPIC_NAME, "partitions": ONE_PARTITION}]},
    ),
    Case(
        "a group's coordinator is found, 3",
        ApiKey.FIND_COORDINATOR,
        (DESCRIBE_GROUP,),
        3,
        {"key": GROUP_ID, "key_type": 0},
    ),
    Case(
        "a group's coordinator is found, 4",
        ApiKey.FIND_COORDINATOR,
        (DESCRIBE_GROUP,),
        4,
        {"coordinator_keys": [GROUP_ID], "key_type": 0},
    ),
    Case(
        "a transactional id's coordinator is found",
        ApiKey.FIND_COORDINATOR,
        (needs(TRANSACTION, Op.DESCRIBE),),
        4,
        {"coordinator_keys": [TRANSACTIONAL_ID], "key_type": 1},
    ),
    Case(
        "a share partition's coordinator is found",
        ApiKey.FIND_COORDINATOR,
        (CLUSTER_ACTION,),
        6,
        {"coordinator_keys": [f"{GROUP_ID}:AAAAAAAAAAAAAAAAAAAAAQ:0"], "key_type": 2},
    ),
    Case(
        "a member joins",
        ApiKey.JOIN_GROUP,
        (READ_GROUP,),
        9,
        {
            "group_id": GROUP_ID,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    ),
    Case(
        "a member syncs",
        ApiKey.SYNC_GROUP,
        (READ_GROUP,),
        5,
        {"group_id": GROUP_ID, "member_id": MEMBER, "protocol_type": "consumer", "protocol_name": "range"},
    ),
    Case("a member syncs, 4", ApiKey.SYNC_GROUP, (READ_GROUP,), 4, {"group_id": GROUP_ID}),
    Case(
        "a member's heartbeat",
        ApiKey.HEARTBEAT,
        (READ_GROUP,),
        4,
        {"group_id": GROUP_ID, "member_id": MEMBER},
    ),
    Case(
        "a member leaves",
        ApiKey.LEAVE_GROUP,
        (READ_GROUP,),
        5,
        {"group_id": GROUP_ID, "members": [{"member_id": MEMBER, "reason": None}]},
    ),
    Case("groups are described", ApiKey.DESCRIBE_GROUPS, (DESCRIBE_GROUP,), 5, {"groups": [GROUP_ID]}),
    Case(
        "groups are deleted",
        ApiKey.DELETE_GROUPS,
        (needs(GROUP, Op.DELETE),),
        2,
        {"groups_names": [f"{GROUP_ID}-gone"]},
    ),
    Case(
        "a consumer group's heartbeat",
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        (READ_GROUP, DESCRIBE_TOPIC),
        1,
        {
            "group_id": f"{GROUP_ID}-consumer",
            "member_id": MEMBER,
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [TOPIC_NAME],
            "topic_partitions": [],
        },
    ),
    Case(
        "consumer groups are described",
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        (DESCRIBE_GROUP,),
        1,
        {"group_ids": [GROUP_ID]},
    ),
    Case(
        "a share group's heartbeat",
        ApiKey.SHARE_GROUP_HEARTBEAT,
        (READ_GROUP, DESCRIBE_TOPIC),
        1,
        {
            "group_id": f"{GROUP_ID}-share",
            "member_id": MEMBER,
            "member_epoch": 0,
            "subscribed_topic_names": [TOPIC_NAME],
        },
    ),
    Case(
        "share groups are described",
        ApiKey.SHARE_GROUP_DESCRIBE,
        (DESCRIBE_GROUP,),
        1,
        {"group_ids": [GROUP_ID]},
    ),
    Case(
        "a share fetch",
        ApiKey.SHARE_FETCH,
        (READ_GROUP, READ_TOPIC),
        1,
        {
            "group_id": f"{GROUP_ID}-share",
            "member_id": MEMBER,
            "share_session_epoch": 0,
            "max_wait_ms": 0,
            "max_records": 1,
            "batch_size": 1,
            "topics": [{"topic_id": TOPIC_ID, "partitions": ONE_PARTITION}],
        },
    ),
    Case(
        "a share acknowledgement",
        ApiKey.SHARE_ACKNOWLEDGE,
        (READ_GROUP,),
        1,
        {"group_id": f"{GROUP_ID}-share", "member_id": MEMBER, "share_session_epoch": 1, "topics": []},
    ),
    Case(
        "a share group's offsets are described",
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
        0,
        {
            "groups": [{"group_id": GROUP_ID, "topics": [{"topic_name": TOPIC_NAME, "partitions": [0]}]}],
        },
    ),
    Case(
        "a share group's offsets are altered",
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        (READ_GROUP, READ_TOPIC),
        0,
        {
            "group_id": f"{GROUP_ID}-share-empty",
            "topics": [
                {"topic_name": TOPIC_NAME, "partitions": [{"partition_index": 0, "start_offset": 0}]},
            ],
        },
    ),
    Case(
        "a share group's offsets are deleted",
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        (needs(GROUP, Op.DELETE),),
        0,
        {"group_id": GROUP_ID, "topics": [{"topic_name": TOPIC_NAME}]},
    ),
    Case(
        "a streams group's heartbeat",
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        (READ_GROUP, DESCRIBE_TOPIC),
        0,
        {
            "group_id": f"{GROUP_ID}-streams",
            "member_id": MEMBER,
            "member_epoch": 0,
            "rebalance_timeout_ms": 1000,
            "topology": _topology(),
            "process_id": "p",
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "client_tags": [],
        },
    ),
    Case(
        "streams groups are described",
        ApiKey.STREAMS_GROUP_DESCRIBE,
        (DESCRIBE_GROUP,),
        0,
        {"group_ids": [GROUP_ID]},
    ),
    Case(
        "a topology's description is updated",
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        (READ_GROUP,),
        0,
        {"group_id": GROUP_ID, "member_id": MEMBER},
    ),
    Case(
        "a transactional producer begins",
        ApiKey.INIT_PRODUCER_ID,
        (WRITE_TRANSACTION,),
        4,
        {"transactional_id": TRANSACTIONAL_ID, "transaction_timeout_ms": 1000},
    ),
    Case(
        "an idempotent producer begins",
        ApiKey.INIT_PRODUCER_ID,
        ((*needs(TOPIC, Op.WRITE), *needs(CLUSTER, Op.IDEMPOTENT_WRITE)),),
        4,
        {"transactional_id": None, "transaction_timeout_ms": 1000},
    ),
    Case(
        "partitions are added to a transaction",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        (WRITE_TRANSACTION, needs(TOPIC, Op.WRITE)),
        3,
        {
            "v3_and_below_transactional_id": TRANSACTIONAL_ID,
            "v3_and_below_producer_id": 5,
            "v3_and_below_topics": [{"name": TOPIC_NAME, "partitions": [0]}],
        },
    ),
    Case(
        "a broker adds partitions to transactions",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        (CLUSTER_ACTION,),
        4,
        {
            "transactions": [
                {
                    "transactional_id": TRANSACTIONAL_ID,
                    "producer_id": 5,
                    "verify_only": True,
                    "topics": [{"name": TOPIC_NAME, "partitions": [0]}],
                }
            ]
        },
    ),
    Case(
        "offsets are added to a transaction",
        ApiKey.ADD_OFFSETS_TO_TXN,
        (WRITE_TRANSACTION, READ_GROUP),
        3,
        {"transactional_id": TRANSACTIONAL_ID, "producer_id": 5, "group_id": GROUP_ID},
    ),
    Case(
        "a transaction ends",
        ApiKey.END_TXN,
        (WRITE_TRANSACTION,),
        3,
        {"transactional_id": TRANSACTIONAL_ID, "producer_id": 5, "committed": True},
    ),
    Case(
        "transactions are described",
        ApiKey.DESCRIBE_TRANSACTIONS,
        (needs(TRANSACTION, Op.DESCRIBE),),
        0,
        {"transactional_ids": [TRANSACTIONAL_ID]},
    ),
    Case(
        "markers are written",
        ApiKey.WRITE_TXN_MARKERS,
        (needs(CLUSTER, Op.ALTER, Op.CLUSTER_ACTION),),
        1,
        {"markers": [{"producer_id": 5, "topics": [{"name": TOPIC_NAME, "partition_indexes": [0]}]}]},
    ),
    Case(
        "producers are described",
        ApiKey.DESCRIBE_PRODUCERS,
        (READ_TOPIC,),
        0,
        {"topics": [{"name": TOPIC_NAME, "partition_indexes": [0]}]},
    ),
    Case(
        "records are deleted",
        ApiKey.DELETE_RECORDS,
        (needs(TOPIC, Op.DELETE),),
        2,
        {
            "timeout_ms": 1000,
            "topics": [{"name": TOPIC_NAME, "partitions": [{"partition_index": 0, "offset": 0}]}],
        },
    ),
    Case(
        "the end of an epoch",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ((*needs(CLUSTER, Op.CLUSTER_ACTION), *needs(TOPIC, Op.DESCRIBE)),),
        4,
        {"replica_id": -1, "topics": [{"topic": TOPIC_NAME, "partitions": [{"partition": 0}]}]},
    ),
    Case(
        "topics are created",
        ApiKey.CREATE_TOPICS,
        ((*needs(CLUSTER, Op.CREATE), *needs(TOPIC, Op.CREATE)),),
        7,
        {
            "validate_only": True,
            "timeout_ms": 1000,
            "topics": [{"name": TOPIC_NAME, "num_partitions": 1, "replication_factor": 1}],
        },
    ),
    Case(
        "partitions are created",
        ApiKey.CREATE_PARTITIONS,
        (needs(TOPIC, Op.ALTER),),
        3,
        {"validate_only": True, "timeout_ms": 1000, "topics": [{"name": TOPIC_NAME, "count": 2}]},
    ),
    *_config_cases(),
    Case(
        "resources with configs are listed",
        ApiKey.LIST_CONFIG_RESOURCES,
        (needs(CLUSTER, Op.DESCRIBE_CONFIGS),),
        1,
    ),
    Case(
        "levels of loggers are changed",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        (needs(CLUSTER, Op.ALTER_CONFIGS),),
        1,
        _configs(LOGGER, "1", incremental=True),
    ),
    Case(
        "ACLs are described",
        ApiKey.DESCRIBE_ACLS,
        (DESCRIBE_CLUSTER,),
        3,
        {
            "resource_type_filter": 1,
            "pattern_type_filter": 1,
            "operation": 1,
            "permission_type": 1,
            "resource_name_filter": None,
            "principal_filter": None,
            "host_filter": None,
        },
    ),
    Case(
        "ACLs are created",
        ApiKey.CREATE_ACLS,
        (ALTER_CLUSTER,),
        3,
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "t",
                    "resource_pattern_type": 3,
                    "principal": "User:x",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    ),
    Case(
        "ACLs are deleted",
        ApiKey.DELETE_ACLS,
        (ALTER_CLUSTER,),
        3,
        {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "t",
                    "pattern_type_filter": 3,
                    "principal_filter": "User:x",
                    "host_filter": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    ),
    Case(
        "users are described", ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (DESCRIBE_CLUSTER,), 0, {"users": []}
    ),
    Case(
        "users are altered",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        (ALTER_CLUSTER,),
        0,
        {"deletions": [{"name": "nobody", "mechanism": 1}]},
    ),
    Case("quotas are described", ApiKey.DESCRIBE_CLIENT_QUOTAS, (needs(CLUSTER, Op.DESCRIBE_CONFIGS),), 1),
    Case(
        "quotas are altered",
        ApiKey.ALTER_CLIENT_QUOTAS,
        (needs(CLUSTER, Op.ALTER_CONFIGS),),
        1,
        {
            "validate_only": True,
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "x"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1000.0}],
                }
            ],
        },
    ),
    Case("directories are described", ApiKey.DESCRIBE_LOG_DIRS, (DESCRIBE_CLUSTER,), 4, {"topics": None}),
    Case(
        "replicas change directories",
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        (ALTER_CLUSTER,),
        2,
        {"dirs": [{"path": "/nowhere", "topics": [{"name": TOPIC_NAME, "partitions": [0]}]}]},
    ),
    Case(
        "leaders are elected",
        ApiKey.ELECT_LEADERS,
        (ALTER_CLUSTER,),
        2,
        {"topic_partitions": [{"topic": TOPIC_NAME, "partitions": [0]}], "timeout_ms": 1000},
    ),
    Case(
        "partitions are reassigned",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        (ALTER_CLUSTER,),
        0,
        {
            "timeout_ms": 1000,
            "topics": [{"name": TOPIC_NAME, "partitions": [{"partition_index": 0, "replicas": None}]}],
        },
    ),
    Case(
        "reassignments are listed",
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        (DESCRIBE_CLUSTER,),
        0,
        {"timeout_ms": 1000, "topics": None},
    ),
    Case(
        "features are updated",
        ApiKey.UPDATE_FEATURES,
        (ALTER_CLUSTER,),
        1,
        {
            "validate_only": True,
            "feature_updates": [{"feature": "group.version", "max_version_level": 1}],
        },
    ),
    Case(
        "the quorum is described",
        ApiKey.DESCRIBE_QUORUM,
        (DESCRIBE_CLUSTER,),
        2,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": ONE_PARTITION}]},
    ),
    Case("a broker is unregistered", ApiKey.UNREGISTER_BROKER, (ALTER_CLUSTER,), 0, {"broker_id": 77}),
    Case(
        "a controller is unregistered",
        ApiKey.UNREGISTER_CONTROLLER,
        (ALTER_CLUSTER,),
        0,
        {"controller_id": 77},
    ),
    Case(
        "a voter is added",
        ApiKey.ADD_RAFT_VOTER,
        (ALTER_CLUSTER,),
        0,
        {"cluster_id": "other", "timeout_ms": 1000, "voter_id": 77, "voter_directory_id": TOPIC_ID},
    ),
    Case(
        "a voter is removed",
        ApiKey.REMOVE_RAFT_VOTER,
        (ALTER_CLUSTER,),
        0,
        {"cluster_id": "other", "voter_id": 77, "voter_directory_id": TOPIC_ID},
    ),
    Case(
        "share state begins", ApiKey.INITIALIZE_SHARE_GROUP_STATE, (CLUSTER_ACTION,), 0, _state(state_epoch=0)
    ),
    Case("share state is read", ApiKey.READ_SHARE_GROUP_STATE, (CLUSTER_ACTION,), 0, _state()),
    Case("share state is written", ApiKey.WRITE_SHARE_GROUP_STATE, (CLUSTER_ACTION,), 0, _state()),
    Case("share state is deleted", ApiKey.DELETE_SHARE_GROUP_STATE, (CLUSTER_ACTION,), 0, _state()),
    Case("share state is summed up", ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, (CLUSTER_ACTION,), 0, _state()),
)

#: Requests of nodes among themselves at a controller's listener.
_OF_NODES: Final[tuple[tuple[ApiKey, int, dict[str, Any]], ...]] = (
    (ApiKey.FETCH, 12, {"topics": []}),
    (ApiKey.FETCH_SNAPSHOT, 0, {"topics": []}),
    (ApiKey.VOTE, 0, {"cluster_id": "other", "topics": []}),
    (ApiKey.BEGIN_QUORUM_EPOCH, 0, {"cluster_id": "other", "topics": []}),
    (ApiKey.END_QUORUM_EPOCH, 0, {"cluster_id": "other", "topics": []}),
    (ApiKey.UPDATE_RAFT_VOTER, 0, {"cluster_id": "other", "voter_id": 77}),
    (ApiKey.ALTER_PARTITION, 3, {"broker_id": 77, "topics": []}),
    (ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, {"broker_id": 77}),
    (ApiKey.BROKER_REGISTRATION, 4, {"broker_id": 77, "cluster_id": "other", "rack": None}),
    (ApiKey.BROKER_HEARTBEAT, 1, {"broker_id": 77}),
    (ApiKey.ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 77}),
    (ApiKey.CONTROLLER_REGISTRATION, 0, {"controller_id": 77}),
)
#: Requests at a controller's listener that have no counterpart at a broker's.
CONTROLLER_CASES: Final[tuple[Case, ...]] = (
    *(
        Case(key.name.lower(), key, (CLUSTER_ACTION,), version, fields, at_controller=True)
        for key, version, fields in _OF_NODES
    ),
    Case(
        "controllers are described",
        ApiKey.DESCRIBE_CLUSTER,
        (ALTER_CLUSTER,),
        1,
        {"endpoint_type": 2},
        at_controller=True,
    ),
)
