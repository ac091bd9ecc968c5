"""What the proxy knows of a cluster: brokers, topics, configs, groups, reassignments, access rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where it is reached."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """`controller` is None where no broker says which it is."""

    id: str
    controller: int | None
    nodes: tuple[Node, ...]

    def node(self, node_id: int) -> Node | None:
        """The broker of this id."""
        return next((node for node in self.nodes if node.id == node_id), None)


@dataclass(frozen=True, slots=True)
class Partition:
    """`leader` is None where there is none at the moment."""

    id: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """`authorized_operations` are None where nobody asked for them."""

    name: str
    is_internal: bool
    partitions: tuple[Partition, ...]
    authorized_operations: tuple[str, ...] | None = None

    @property
    def replication_factor(self) -> int:
        """Of its first partition."""
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
    """What the cluster made, or would make, of a NewTopic; `configs` by the names of ConfigEntry."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[ConfigEntry, ...]


class ResourceType(IntEnum):
    """Of what a config or an access rule is."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class ConfigResourceType(IntEnum):
    """Whose configs; a broker's with an empty name are those of all brokers."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a config's value comes from."""

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
    """A place that a config's value may come from, the first of them wins."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config. `value` is None where it has none or is secret."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()


class AlterOperation(IntEnum):
    """What to do with a config."""

    SET = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of a config; `value` matters for SET."""

    name: str
    operation: AlterOperation
    value: str | None = None


class AclPatternType(IntEnum):
    """How an access rule's resource name is meant."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What an access rule is about."""

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
    """Whether an access rule allows."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    """An access rule; as a filter its None matches all."""

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
    """How far a group is behind the end of one partition, and who reads that for it."""

    topic: str
    partition: int
    committed: int
    log_end: int
    member: Member | None

    @property
    def lag(self) -> int:
        """Records between what the group has committed and the end."""
        return self.log_end - self.committed
