"""The table of Kafka's APIs: keys, names, versions, header versions, and each API's message classes.

The APIs and ranges are those of Apache Kafka 4.4.0. A request and its response have the same versions and
become flexible (compact lengths, tagged fields) at the same one. The keys 4 to 7 (LeaderAndIsr, StopReplica,
UpdateMetadata, ControlledShutdown) were removed with ZooKeeper and have no version left, so they are not
here.

Message classes are imported at their first use: a broker that serves six APIs loads six.
"""

from __future__ import annotations

import enum
import functools
import importlib
import re
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.protocol.errors import UnsupportedApiVersion

if TYPE_CHECKING:
    from ottla.protocol.schema import Message


class ApiKey(enum.IntEnum):
    """The number at the beginning of a request that names its API."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


class Listeners(enum.Flag):
    """The kinds of listeners on which an API is served."""

    BROKER = enum.auto()
    CONTROLLER = enum.auto()


_BROKER = Listeners.BROKER
_CONTROLLER = Listeners.CONTROLLER
_BOTH = Listeners.BROKER | Listeners.CONTROLLER


class Api(NamedTuple):
    """One row of the table.

    `max_version` is the newest version that has a field table, `latest_stable_version` the newest that is not
    marked as unstable; they differ if Kafka is still working on a version. `flexible_since` is None if no
    version is flexible.
    """

    name: str
    min_version: int
    max_version: int
    latest_stable_version: int
    flexible_since: int | None
    listeners: Listeners


APIS: dict[ApiKey, Api] = {
    ApiKey.PRODUCE: Api("Produce", 3, 13, 13, 9, _BROKER),
    ApiKey.FETCH: Api("Fetch", 4, 18, 18, 12, _BOTH),
    ApiKey.LIST_OFFSETS: Api("ListOffsets", 1, 11, 11, 6, _BROKER),
    ApiKey.METADATA: Api("Metadata", 0, 13, 13, 9, _BROKER),
    ApiKey.OFFSET_COMMIT: Api("OffsetCommit", 2, 10, 10, 8, _BROKER),
    ApiKey.OFFSET_FETCH: Api("OffsetFetch", 1, 10, 10, 6, _BROKER),
    ApiKey.FIND_COORDINATOR: Api("FindCoordinator", 0, 6, 6, 3, _BROKER),
    ApiKey.JOIN_GROUP: Api("JoinGroup", 0, 9, 9, 6, _BROKER),
    ApiKey.HEARTBEAT: Api("Heartbeat", 0, 4, 4, 4, _BROKER),
    ApiKey.LEAVE_GROUP: Api("LeaveGroup", 0, 5, 5, 4, _BROKER),
    ApiKey.SYNC_GROUP: Api("SyncGroup", 0, 5, 5, 4, _BROKER),
    ApiKey.DESCRIBE_GROUPS: Api("DescribeGroups", 0, 6, 6, 5, _BROKER),
    ApiKey.LIST_GROUPS: Api("ListGroups", 0, 5, 5, 3, _BROKER),
    ApiKey.SASL_HANDSHAKE: Api("SaslHandshake", 0, 1, 1, None, _BOTH),
    ApiKey.API_VERSIONS: Api("ApiVersions", 0, 5, 5, 3, _BOTH),
    ApiKey.CREATE_TOPICS: Api("CreateTopics", 2, 7, 7, 5, _BOTH),
    ApiKey.DELETE_TOPICS: Api("DeleteTopics", 1, 6, 6, 4, _BOTH),
    ApiKey.DELETE_RECORDS: Api("DeleteRecords", 0, 2, 2, 2, _BROKER),
    ApiKey.INIT_PRODUCER_ID: Api("InitProducerId", 0, 6, 5, 2, _BROKER),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api("OffsetForLeaderEpoch", 2, 4, 4, 4, _BROKER),
    ApiKey.ADD_PARTITIONS_TO_TXN: Api("AddPartitionsToTxn", 0, 5, 5, 3, _BROKER),
    ApiKey.ADD_OFFSETS_TO_TXN: Api("AddOffsetsToTxn", 0, 4, 4, 3, _BROKER),
    ApiKey.END_TXN: Api("EndTxn", 0, 5, 5, 3, _BROKER),
    ApiKey.WRITE_TXN_MARKERS: Api("WriteTxnMarkers", 1, 2, 2, 1, _BROKER),
    ApiKey.TXN_OFFSET_COMMIT: Api("TxnOffsetCommit", 0, 6, 6, 3, _BROKER),
    ApiKey.DESCRIBE_ACLS: Api("DescribeAcls", 1, 3, 3, 2, _BOTH),
    ApiKey.CREATE_ACLS: Api("CreateAcls", 1, 3, 3, 2, _BOTH),
    ApiKey.DELETE_ACLS: Api("DeleteAcls", 1, 3, 3, 2, _BOTH),
    ApiKey.DESCRIBE_CONFIGS: Api("DescribeConfigs", 1, 4, 4, 4, _BOTH),
    ApiKey.ALTER_CONFIGS: Api("AlterConfigs", 0, 2, 2, 2, _BOTH),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Api("AlterReplicaLogDirs", 1, 2, 2, 2, _BROKER),
    ApiKey.DESCRIBE_LOG_DIRS: Api("DescribeLogDirs", 1, 5, 5, 2, _BROKER),
    ApiKey.SASL_AUTHENTICATE: Api("SaslAuthenticate", 0, 2, 2, 2, _BOTH),
    ApiKey.CREATE_PARTITIONS: Api("CreatePartitions", 0, 3, 3, 2, _BOTH),
    ApiKey.CREATE_DELEGATION_TOKEN: Api("CreateDelegationToken", 1, 3, 3, 2, _BOTH),
    ApiKey.RENEW_DELEGATION_TOKEN: Api("RenewDelegationToken", 1, 2, 2, 2, _BOTH),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Api("ExpireDelegationToken", 1, 2, 2, 2, _BOTH),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Api("DescribeDelegationToken", 1, 3, 3, 2, _BOTH),
    ApiKey.DELETE_GROUPS: Api("DeleteGroups", 0, 3, 3, 2, _BROKER),
    ApiKey.ELECT_LEADERS: Api("ElectLeaders", 0, 2, 2, 2, _BOTH),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Api("IncrementalAlterConfigs", 0, 1, 1, 1, _BOTH),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Api("AlterPartitionReassignments", 0, 1, 1, 0, _BOTH),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Api("ListPartitionReassignments", 0, 0, 0, 0, _BOTH),
    ApiKey.OFFSET_DELETE: Api("OffsetDelete", 0, 0, 0, None, _BROKER),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Api("DescribeClientQuotas", 0, 1, 1, 1, _BROKER),
    ApiKey.ALTER_CLIENT_QUOTAS: Api("AlterClientQuotas", 0, 1, 1, 1, _BOTH),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Api("DescribeUserScramCredentials", 0, 0, 0, 0, _BOTH),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Api("AlterUserScramCredentials", 0, 0, 0, 0, _BOTH),
    ApiKey.VOTE: Api("Vote", 0, 2, 2, 0, _CONTROLLER),
    ApiKey.BEGIN_QUORUM_EPOCH: Api("BeginQuorumEpoch", 0, 1, 1, 1, _CONTROLLER),
    ApiKey.END_QUORUM_EPOCH: Api("EndQuorumEpoch", 0, 1, 1, 1, _CONTROLLER),
    ApiKey.DESCRIBE_QUORUM: Api("DescribeQuorum", 0, 2, 2, 0, _BOTH),
    ApiKey.ALTER_PARTITION: Api("AlterPartition", 2, 3, 3, 0, _CONTROLLER),
    ApiKey.UPDATE_FEATURES: Api("UpdateFeatures", 0, 2, 2, 0, _BOTH),
    ApiKey.ENVELOPE: Api("Envelope", 0, 0, 0, 0, _CONTROLLER),
    ApiKey.FETCH_SNAPSHOT: Api("FetchSnapshot", 0, 1, 1, 0, _CONTROLLER),
    ApiKey.DESCRIBE_CLUSTER: Api("DescribeCluster", 0, 2, 2, 0, _BOTH),
    ApiKey.DESCRIBE_PRODUCERS: Api("DescribeProducers", 0, 0, 0, 0, _BROKER),
    ApiKey.BROKER_REGISTRATION: Api("BrokerRegistration", 0, 4, 4, 0, _CONTROLLER),
    ApiKey.BROKER_HEARTBEAT: Api("BrokerHeartbeat", 0, 2, 2, 0, _CONTROLLER),
    ApiKey.UNREGISTER_BROKER: Api("UnregisterBroker", 0, 0, 0, 0, _BOTH),
    ApiKey.DESCRIBE_TRANSACTIONS: Api("DescribeTransactions", 0, 0, 0, 0, _BROKER),
    ApiKey.LIST_TRANSACTIONS: Api("ListTransactions", 0, 2, 2, 0, _BROKER),
    ApiKey.ALLOCATE_PRODUCER_IDS: Api("AllocateProducerIds", 0, 0, 0, 0, _CONTROLLER),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Api("ConsumerGroupHeartbeat", 0, 1, 1, 0, _BROKER),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Api("ConsumerGroupDescribe", 0, 1, 1, 0, _BROKER),
    ApiKey.CONTROLLER_REGISTRATION: Api("ControllerRegistration", 0, 0, 0, 0, _CONTROLLER),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Api("GetTelemetrySubscriptions", 0, 0, 0, 0, _BROKER),
    ApiKey.PUSH_TELEMETRY: Api("PushTelemetry", 0, 0, 0, 0, _BROKER),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Api("AssignReplicasToDirs", 0, 0, 0, 0, _CONTROLLER),
    ApiKey.LIST_CONFIG_RESOURCES: Api("ListConfigResources", 0, 1, 1, 0, _BROKER),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Api("DescribeTopicPartitions", 0, 0, 0, 0, _BROKER),
    ApiKey.SHARE_GROUP_HEARTBEAT: Api("ShareGroupHeartbeat", 1, 1, 1, 0, _BROKER),
    ApiKey.SHARE_GROUP_DESCRIBE: Api("ShareGroupDescribe", 1, 1, 1, 0, _BROKER),
    ApiKey.SHARE_FETCH: Api("ShareFetch", 1, 2, 2, 0, _BROKER),
    ApiKey.SHARE_ACKNOWLEDGE: Api("ShareAcknowledge", 1, 2, 2, 0, _BROKER),
    ApiKey.ADD_RAFT_VOTER: Api("AddRaftVoter", 0, 1, 1, 0, _BOTH),
    ApiKey.REMOVE_RAFT_VOTER: Api("RemoveRaftVoter", 0, 0, 0, 0, _BOTH),
    ApiKey.UPDATE_RAFT_VOTER: Api("UpdateRaftVoter", 0, 0, 0, 0, _CONTROLLER),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Api("InitializeShareGroupState", 0, 0, 0, 0, _BROKER),
    ApiKey.READ_SHARE_GROUP_STATE: Api("ReadShareGroupState", 0, 0, 0, 0, _BROKER),
    ApiKey.WRITE_SHARE_GROUP_STATE: Api("WriteShareGroupState", 0, 1, 1, 0, _BROKER),
    ApiKey.DELETE_SHARE_GROUP_STATE: Api("DeleteShareGroupState", 0, 0, 0, 0, _BROKER),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Api("ReadShareGroupStateSummary", 0, 1, 1, 0, _BROKER),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Api("StreamsGroupHeartbeat", 0, 1, 1, 0, _BROKER),
    ApiKey.STREAMS_GROUP_DESCRIBE: Api("StreamsGroupDescribe", 0, 1, 1, 0, _BROKER),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Api("DescribeShareGroupOffsets", 0, 1, 1, 0, _BROKER),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Api("AlterShareGroupOffsets", 0, 0, 0, 0, _BROKER),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Api("DeleteShareGroupOffsets", 0, 0, 0, 0, _BROKER),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Api(
        "StreamsGroupTopologyDescriptionUpdate", 0, 0, 0, 0, _BROKER
    ),
    ApiKey.UNREGISTER_CONTROLLER: Api("UnregisterController", 0, 0, 0, 0, _BOTH),
}

# KAFKA-18659: librdkafka considers a codec supported only if the advertised range of Produce begins low
# enough; otherwise it sends uncompressed records silently. Kafka advertises 0 and refuses 0 to 2; so do we.
_ADVERTISED_MIN_VERSION = {ApiKey.PRODUCE: 0}

_NEVER_FLEXIBLE = 1 << 16
_FLEXIBLE_SINCE: dict[int, int] = {
    int(key): _NEVER_FLEXIBLE if api.flexible_since is None else api.flexible_since
    for key, api in APIS.items()
}
_API_VERSIONS = int(ApiKey.API_VERSIONS)


def api(key: int) -> Api:
    """The row of an API key. Raises UnsupportedApiVersion for a key that does not exist."""
    row = APIS.get(cast(ApiKey, key))
    if row is None:
        raise UnsupportedApiVersion(f"API key {key}", -1, f"no API has the key {key}")
    return row


def advertised_versions(key: int) -> tuple[int, int]:
    """The lowest and highest version in an ApiVersions response, both included."""
    row = api(key)
    return _ADVERTISED_MIN_VERSION.get(cast(ApiKey, key), row.min_version), row.latest_stable_version


def supports(key: int, version: int) -> bool:
    """Whether this version of this API has a field table; the advertised range may be wider or narrower."""
    row = APIS.get(cast(ApiKey, key))
    return row is not None and row.min_version <= version <= row.max_version


def request_header_version(key: int, version: int) -> int:
    """The version of a request's header: 2 (with tagged fields) if the request is flexible, else 1.

    A version above the newest known one counts as flexible, so that the header of such a request can be read.
    Raises UnsupportedApiVersion for a key that does not exist.
    """
    since = _FLEXIBLE_SINCE.get(key)
    if since is None:
        raise UnsupportedApiVersion(f"API key {key}", version, f"no API has the key {key}")
    return 2 if version >= since else 1


def response_header_version(key: int, version: int) -> int:
    """The version of a response's header: 1 (with tagged fields) if the response is flexible, else 0.

    ApiVersions always answers with 0: a client that does not know the broker's versions yet must be able to
    read it (KIP-511). Raises UnsupportedApiVersion for a key that does not exist.
    """
    if key == _API_VERSIONS:
        return 0
    return request_header_version(key, version) - 1


def snake_case(name: str) -> str:
    """The name of a message's module: FetchRequest -> fetch_request, KRaftRecord -> kraft_record."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@functools.cache
def request_class(key: int) -> type[Message]:
    """The message class of an API's request. Raises UnsupportedApiVersion for a key that does not exist."""
    return _message_class(api(key).name + "Request")


@functools.cache
def response_class(key: int) -> type[Message]:
    """The message class of an API's response. Raises UnsupportedApiVersion for a key that does not exist."""
    return _message_class(api(key).name + "Response")


def _message_class(name: str) -> type[Message]:
    module = importlib.import_module(f"ottla.protocol.messages.{snake_case(name)}")
    return cast("type[Message]", getattr(module, name))
