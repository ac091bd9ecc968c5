"""The cluster as one look saw it: frozen, part by part, each with the reason where it could not be read."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

from ottla.client.access import Address
from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.model import GroupType

T = TypeVar("T")


class WhyNot(enum.Enum):
    """Why a part of the cluster could not be looked at; the values are words of `--json`."""

    NOT_ALLOWED = "not allowed"
    NOT_OFFERED = "not offered"
    """The brokers do not have the request, or not for such a cluster: there is nothing to see."""
    NOT_ASKED = "not asked"
    """The user did not ask for it, or did not say where it is."""
    FAILED = "failed"
    OUT_OF_TIME = "out of time"

    @property
    def hides_faults(self) -> bool:
        """Whether there may be faults that another look would see."""
        return self in (WhyNot.NOT_ALLOWED, WhyNot.FAILED, WhyNot.OUT_OF_TIME)


@dataclass(frozen=True, slots=True)
class Gap:
    """A part that could not be read, and why, in words."""

    why: WhyNot
    reason: str


class NotRead(Exception):
    """A check asked for a part that could not be read."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(gap.reason)
        self.gap = gap


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A part of the snapshot. left_out: sentences on the gaps of the value."""

    value: T | None = None
    gap: Gap | None = None
    left_out: tuple[str, ...] = ()

    def get(self) -> T:
        """The value. Raises NotRead."""
        if self.value is None:
            raise NotRead(self.gap or Gap(WhyNot.NOT_ASKED, "it was not asked for"))
        return self.value


# -- brokers and topics --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A registered broker at the address that it advertises to this client."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool = False

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address(self.host, self.port)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster's brokers by id, fenced ones included where the cluster tells them."""

    cluster_id: str
    brokers: Mapping[int, BrokerView]
    tells_fenced: bool = True

    def live(self) -> list[int]:
        """The ids of the brokers that are not fenced, sorted."""
        return sorted(node_id for node_id, broker in self.brokers.items() if not broker.fenced)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition. leader: below 0 for none."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic with its partitions, in the order of their numbers."""

    name: str
    internal: bool
    partitions: tuple[PartitionView, ...]


Topics = Mapping[str, TopicView]


def partitions(topics: Topics) -> Iterator[tuple[TopicPartition, PartitionView]]:
    """All partitions of all topics."""
    for name, topic in topics.items():
        for one in topic.partitions:
            yield TopicPartition(name, one.index), one


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's value (None for a hidden one). source: DEFAULT and so on, by its name. unknown: to the
    broker.
    """

    value: str | None
    source: str
    unknown: bool = False


Settings = Mapping[str, Setting]


def value_of(settings: Settings, name: str) -> str | None:
    """A setting's value; None if there is none, or it is hidden."""
    found = settings.get(name)
    return None if found is None else found.value


def number_of(settings: Settings, name: str) -> int | None:
    """A setting's value as a number; None if it is none."""
    try:
        return int(value_of(settings, name) or "")
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Move:
    """A reassignment of a partition that is under way."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Offsets:
    """A partition's start, its last stable offset and its high watermark, at the look."""

    start: int
    stable: int
    end: int


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """The timestamp of a partition's first record, in ms."""

    timestamp_ms: int


# -- disks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A broker's directory. error: its error's name. total, usable: bytes of its disk; None if not told."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    sizes: Mapping[TopicPartition, int]

    @property
    def used_bytes(self) -> int:
        """The bytes of all logs in it."""
        return sum(self.sizes.values())


Directories = Mapping[int, tuple[LogDirectory, ...]]


def replica_sizes(directories: Directories) -> dict[TopicPartition, dict[int, int]]:
    """Partition -> broker -> bytes."""
    found: dict[TopicPartition, dict[int, int]] = {}
    for broker, listed in directories.items():
        for directory in listed:
            for partition, size in directory.sizes.items():
                found.setdefault(partition, {})[broker] = size
    return found


@dataclass(frozen=True, slots=True)
class Growth:
    """The directories a second time, and the seconds between both looks."""

    seconds: float
    later: Directories
    moves: Mapping[TopicPartition, Move]


# -- nodes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replica:
    """A voter or an observer of the metadata. caught_up_ms: by the leader's clock; None if not told."""

    node_id: int
    end_offset: int
    caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The metadata quorum. leader: below 0 for none."""

    leader: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]


@dataclass(frozen=True, slots=True)
class NodeVersions:
    """The versions of a broker. apis: key -> (oldest, newest). supported: feature -> (least, most)."""

    apis: Mapping[int, tuple[int, int]]
    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Contact:
    """A broker at its advertised address. problem: why it gave no answer; None if it did."""

    broker: BrokerView
    problem: str | None


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate that a listener shows."""

    subject: str
    not_before_ms: int
    not_after_ms: int


@dataclass(frozen=True, slots=True)
class ListenerView:
    """An advertised listener of a broker, tried by a connection and, where it has TLS, a handshake.

    bound: the host that it listens at. ours: whether this client came in by this listener. problem: why it
    could not be reached. anonymous: the operations on the cluster that a client without a login may use
    there; None where none gets in.
    """

    broker: int
    name: str
    protocol: str
    bound: str
    advertised: Address
    ours: bool
    problem: str | None = None
    certificate: Certificate | None = None
    anonymous: frozenset[str] | None = None

    @property
    def title(self) -> str:
        """`broker 1 SSL://host:9093`."""
        return f"broker {self.broker} {self.name}://{self.advertised}"


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A clock of the cluster beside this machine's. skew: theirs less ours. error: the most that it may be
    off.
    """

    node: str
    skew_ms: float
    error_ms: float


# -- groups and transactions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A group at one moment. epoch: None in classic groups."""

    state: str
    epoch: int | None
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group with its offsets. samples: one a look, in their order. assigned, idle: of its members."""

    group_id: str
    type: GroupType
    protocol_type: str
    samples: tuple[GroupSample, ...]
    assigned: frozenset[TopicPartition]
    idle_members: int
    offsets: Mapping[TopicPartition, int] | None

    @property
    def state(self) -> str:
        """The state at the last look."""
        return self.samples[-1].state

    @property
    def member_count(self) -> int:
        """The number of members at the last look."""
        return len(self.samples[-1].members)


@dataclass(frozen=True, slots=True)
class DueOffsets:
    """Where retention by time will stand: hours from now -> partition -> the first offset that is left then.

    A partition all of whose records will be gone has its end.
    """

    horizons: Mapping[float, Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that its coordinator knows to be open."""

    transactional_id: str
    producer_id: int
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that no coordinator will end. start_offset: of its first record in the partition."""

    partition: TopicPartition
    producer_id: int
    start_offset: int
    last_written_ms: int


# -- rights --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenView:
    """A delegation token that the user may see."""

    token_id: str
    owner: str
    ends_ms: int
    latest_end_ms: int


@dataclass(frozen=True, slots=True)
class QuotaView:
    """Quotas of one entity: its types ("user", "client-id", "ip") with their names, None for the default."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AclView:
    """A rule that allows, by Kafka's words in lower case."""

    principal: str
    host: str
    operation: str
    resource: str
    name: str


@dataclass(frozen=True, slots=True)
class MetricSamples:
    """Samples of brokers' metrics pages: (page, name, labels, value)."""

    samples: tuple[tuple[str, str, Mapping[str, str], float], ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at a cluster.

    taken_ms: the time of this machine's clock. bootstrap: the servers that were asked first. The other
    fields are parts, whose names checks give in `reads`.
    """

    taken_ms: int
    bootstrap: tuple[Address, ...] = ()
    cluster: Part[ClusterView] = Part()
    topics: Part[Topics] = Part()
    topic_settings: Part[Mapping[str, Settings]] = Part()
    broker_settings: Part[Mapping[int, Settings]] = Part()
    directories: Part[Directories] = Part()
    growth: Part[Growth] = Part()
    moves: Part[Mapping[TopicPartition, Move]] = Part()
    offsets: Part[Mapping[TopicPartition, Offsets]] = Part()
    first_records: Part[Mapping[TopicPartition, FirstRecord]] = Part()
    quorum: Part[QuorumView] = Part()
    versions: Part[Mapping[int, NodeVersions]] = Part()
    contacts: Part[tuple[Contact, ...]] = Part()
    listeners: Part[tuple[ListenerView, ...]] = Part()
    clocks: Part[tuple[ClockReading, ...]] = Part()
    groups: Part[Mapping[str, GroupView]] = Part()
    due: Part[DueOffsets] = Part()
    transactions: Part[tuple[OpenTransaction, ...]] = Part()
    hanging: Part[tuple[HangingTransaction, ...]] = Part()
    producers: Part[Mapping[TopicPartition, int]] = Part()
    tokens: Part[tuple[TokenView, ...]] = Part()
    quotas: Part[tuple[QuotaView, ...]] = Part()
    acls: Part[tuple[AclView, ...]] = Part()
    metrics: Part[MetricSamples] = Part()

    def part(self, name: str) -> Part[object]:
        """A part by its name."""
        found: Part[object] = getattr(self, name)
        return found


PART_NAMES = tuple(each.name for each in fields(Snapshot) if each.name not in ("taken_ms", "bootstrap"))
