"""A cluster as the proxy sees it: brokers, topics, configs, groups, reassignments, access rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and its address."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster's id and brokers. `controller` is None where the brokers do not name it."""

    id: str
    controller: int | None
    nodes: tuple[Node, ...]

    def node(self, node_id: int) -> Node | None:
        """The broker of this id."""
        return next((node for node in self.nodes if node.id == node_id), None)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a topic. `leader` is None while it has none."""

    id: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `authorized_operations` are None where the request did not ask for them."""

    name: str
    is_internal: bool
    partitions: tuple[Partition, ...]
    authorized_operations: tuple[str, ...] | None = None

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    def partition(self, partition_id: int) -> Partition | None:
        """The partition of this id."""
        return next((partition for partition in self.partitions if partition.id == partition_id), None)


class OffsetSpec(IntEnum):
    """Which offset of a partition, by the numbers that stand for a timestamp in Kafka's ListOffsets."""

    EARLIEST = -2
    LATEST = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 stands for the cluster's default; `assignments` are replicas by partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The topic that the cluster created, or would create, for a NewTopic."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[ConfigEntry, ...]


class ResourceType(IntEnum):
    """The kind of resource that a config or an access rule belongs to."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class ConfigResourceType(IntEnum):
    """The kind of resource that a config belongs to; BROKER with an empty name stands for all brokers."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """The source of a config's value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource | None:
        return cls.UNKNOWN if isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One of the sources of a config's value; the first of them wins."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config. `value` is None where the config has no value or is secret."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()


class AlterOperation(IntEnum):
    """The operation of a change: set the value, or delete it."""

    SET = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of a config; `value` matters for SET."""

    name: str
    operation: AlterOperation
    value: str | None = None


class AclPatternType(IntEnum):
    """How an access rule's resource name is matched."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operation that an access rule allows or denies."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @classmethod
    def _missing_(cls, value: object) -> AclOperation | None:
        return cls.UNKNOWN if isinstance(value, int) else None


class AclPermission(IntEnum):
    """Whether an access rule allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    """An access rule, or a filter of rules, where None matches everything."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: AclPatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: AclPermission


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition whose replicas move."""

    topic: str
    partition: int
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer of a group and the partitions that it has."""

    id: str
    instance_id: str | None
    client_id: str
    assigned: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group. `state` and `type` by Kafka's names."""

    id: str
    is_simple: bool
    assignor: str
    state: str
    type: str
    coordinator: int | None
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is behind the end of one partition, and the member that reads it."""

    topic: str
    partition: int
    committed: int
    log_end: int
    member: Member | None

    @property
    def lag(self) -> int:
        """The number of records between the committed offset and the end."""
        return self.log_end - self.committed
