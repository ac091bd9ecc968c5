"""Reads a cluster's model: who holds what, its sizes at once, its rates over a short interval.

Theory of operation. Metadata tells replicas, leaders and who is in sync; brokers that hold replicas and are
not there are dead. DescribeLogDirs tells sizes and the disks' capacity. Rates need two looks: the ends of the
logs, and the offsets of the groups, before and after an interval; what lies between is turned into bytes by
the size of a record in that partition. That works on any Kafka. Where brokers' metrics can be read by HTTP,
their counters by topic replace the sums of those estimates, for each broker, and tell the CPU.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.balance.broker_metrics import BrokerCounters, MetricsReader
from ottla.balance.capacities import ALL_BROKERS
from ottla.balance.core.model import Broker, BrokerState, Capacity, ClusterModel, Partition
from ottla.client.admin.partition_offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from ottla.client.cluster_requests import ClusterRequests, TopicPartition, refusal
from ottla.client.errors import ClusterError
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import GroupType, ListedGroup
from ottla.client.groups.offsets import group_offsets
from ottla.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from ottla.protocol.messages.metadata_response import MetadataResponseTopic

LEADER_SECONDS: Final = 2.0
"""To wait for a partition without a leader: its rates are then none."""
PARTITIONS_A_REQUEST: Final = 4_000
CPU_OF_LEADER_IN: Final = 0.7
CPU_OF_LEADER_OUT: Final = 0.15
CPU_OF_FOLLOWER_IN: Final = 0.15
"""How a broker's CPU is shared among what it does, byte for byte: Cruise Control's weights."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """interval_seconds: between the two looks. capacities: by broker, ALL_BROKERS for others.

    metrics_url: where a broker's metrics are, with `{host}` and `{id}` in it; None for nowhere.
    """

    interval_seconds: float = 5.0
    capacities: Mapping[int, Capacity] = field(default_factory=dict)
    metrics_url: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """problems: what could not be read, a line each; the model leaves it out.

    records_in: by topic and partition, how many records a second are written.
    """

    cluster_id: str
    model: ClusterModel
    problems: tuple[str, ...] = ()
    records_in: Mapping[tuple[str, int], float] = field(default_factory=dict)

    def with_states(self, states: Mapping[int, BrokerState]) -> ClusterModel:
        """The model with other states of some brokers; a dead one stays dead. Raises ClusterError."""
        self.require_known(states)
        brokers = tuple(
            one
            if one.state is BrokerState.DEAD or one.id not in states
            else replace(one, state=states[one.id])
            for one in self.model.brokers
        )
        return replace(self.model, brokers=brokers)

    def require_known(self, brokers: Iterable[int]) -> None:
        """Raises ClusterError for a broker that is not there."""
        known = {one.id for one in self.model.brokers}
        if unknown := sorted(set(brokers) - known):
            there = ", ".join(map(str, sorted(known)))
            raise ClusterError(f"there is no broker {unknown[0]}; there are {there}")


@dataclass(frozen=True, slots=True)
class _Look:
    """The ends of logs and the offsets of groups at a moment; counters of brokers' metrics."""

    at_seconds: float
    ends: Mapping[TopicPartition, int]
    offsets: Mapping[tuple[str, TopicPartition], int]
    counters: Mapping[int, BrokerCounters]


async def read_cluster(client: ClusterRequests, options: ReadOptions) -> Reading:
    """The model of the cluster, after the interval. Raises ClusterError where it does not answer."""
    metrics = None if options.metrics_url is None else MetricsReader(options.metrics_url)
    cluster = await client.cluster(refresh=True)
    topics = [one for one in await client.topics() if one.name and not one.error_code]
    led = [
        TopicPartition(one.name or "", each.partition_index)
        for one in topics
        for each in one.partitions
        if each.leader_id >= 0
    ]
    hosts = {one.node_id: one.host for one in cluster.brokers.values()}
    disks, starts, groups = await asyncio.gather(
        _disks(client), _offsets(client, led, EARLIEST), _groups(client)
    )
    first = await _look(client, led, groups, metrics, hosts)
    await asyncio.sleep(options.interval_seconds)
    second = await _look(client, led, groups, metrics, hosts)
    rates = _Rates(disks, starts, first, second)
    partitions = _partitions(topics, disks, rates, set(hosts))
    holders = {replica for one in partitions for replica in one.replicas}
    brokers = [
        Broker(one.node_id, one.rack, _capacity(one.node_id, disks, options.capacities), host=one.host)
        for one in cluster.brokers.values()
    ]
    brokers += [Broker(one, state=BrokerState.DEAD) for one in sorted(holders - hosts.keys())]
    partitions = _measured(partitions, first, second)
    problems = [*disks.problems, *([] if metrics is None else metrics.problems)]
    model = ClusterModel(tuple(brokers), tuple(partitions))
    return Reading(cluster.cluster_id, model, tuple(dict.fromkeys(problems)), rates.records_in)


# -- disks -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Disks:
    """Sizes of replicas, capacities of brokers, and what could not be read."""

    sizes: dict[TopicPartition, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    capacity: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


async def _disks(client: ClusterRequests) -> _Disks:
    found = _Disks()
    answers = await client.ask_all(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    for broker, answer in answers.items():
        if isinstance(answer, ClusterError):
            found.problems.append(str(answer))
            continue
        if answer.error_code:
            found.problems.append(str(refusal(answer.error_code, None, f"broker {broker}")))
            continue
        for directory in answer.results:
            if directory.error_code:
                problem = refusal(directory.error_code, None, f"broker {broker}, {directory.log_dir}")
                found.problems.append(str(problem))
                continue
            if directory.total_bytes > 0:
                found.capacity[broker] = found.capacity.get(broker, 0) + directory.total_bytes
            for topic in directory.topics:
                for one in topic.partitions:
                    if not one.is_future_key:
                        place = TopicPartition(topic.name, one.partition_index)
                        found.sizes[place][broker] = one.partition_size
    return found


def _capacity(broker: int, disks: _Disks, given: Mapping[int, Capacity]) -> Capacity:
    """What was given for the broker, and the disks' own size where nothing was."""
    told = given.get(broker, given.get(ALL_BROKERS, Capacity()))
    if told.disk is None and broker in disks.capacity:
        return replace(told, disk=float(disks.capacity[broker]))
    return told


# -- rates -------------------------------------------------------------------------------------------------


async def _groups(client: ClusterRequests) -> dict[str, GroupType]:
    """The groups that there are; none where they may not be listed."""
    listed: Sequence[ListedGroup] = ()
    with contextlib.suppress(ClusterError):
        listed = await list_groups(client)
    return {one.group_id: one.type for one in listed}


async def _offsets(
    client: ClusterRequests, partitions: Sequence[TopicPartition], which: int
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for start in range(0, len(partitions), PARTITIONS_A_REQUEST):
        some = dict.fromkeys(partitions[start : start + PARTITIONS_A_REQUEST], which)
        for place, one in (await list_offsets(client, some, seconds=LEADER_SECONDS)).items():
            if isinstance(one, FoundOffset):
                found[place] = one.offset
    return found


async def _look(
    client: ClusterRequests,
    led: Sequence[TopicPartition],
    groups: Mapping[str, GroupType],
    metrics: MetricsReader | None,
    hosts: Mapping[int, str],
) -> _Look:
    async def committed() -> dict[tuple[str, TopicPartition], int]:
        found: dict[tuple[str, TopicPartition], int] = {}
        for group, offsets in (await group_offsets(client, groups)).items() if groups else ():
            if not isinstance(offsets, ClusterError):
                found |= {
                    (group, place): one.offset for place, one in offsets.items() if one.offset is not None
                }
        return found

    async def counters() -> dict[int, BrokerCounters]:
        return {} if metrics is None else await metrics.read(hosts)

    at_seconds = asyncio.get_running_loop().time()
    ends, offsets, counted = await asyncio.gather(_offsets(client, led, LATEST), committed(), counters())
    return _Look(at_seconds, ends, offsets, counted)


class _Rates:
    """Bytes per second into and out of partitions, by offsets."""

    def __init__(
        self, disks: _Disks, starts: Mapping[TopicPartition, int], first: _Look, second: _Look
    ) -> None:
        seconds = max(1e-3, second.at_seconds - first.at_seconds)
        self.records_in: dict[tuple[str, int], float] = {}
        self._rate_in: dict[TopicPartition, float] = {}
        self._rate_out: dict[TopicPartition, float] = defaultdict(float)
        record: dict[TopicPartition, float] = {}
        for place, end in second.ends.items():
            count = end - starts.get(place, 0)
            size = max(disks.sizes[place].values(), default=0)
            record[place] = size / count if count > 0 else 0.0
            written = max(0, end - first.ends.get(place, end))
            self.records_in[place.topic, place.partition] = written / seconds
            self._rate_in[place] = written * record[place] / seconds
        for (group, place), offset in second.offsets.items():
            read = max(0, offset - first.offsets.get((group, place), offset))
            self._rate_out[place] += read * record.get(place, 0.0) / seconds

    def of(self, place: TopicPartition) -> tuple[float, float]:
        """In and out."""
        return self._rate_in.get(place, 0.0), self._rate_out.get(place, 0.0)


def _partitions(
    topics: Sequence[MetadataResponseTopic], disks: _Disks, rates: _Rates, alive: Collection[int]
) -> list[Partition]:
    found = []
    for topic in topics:
        for one in topic.partitions:
            place = TopicPartition(topic.name or "", one.partition_index)
            sizes = disks.sizes.get(place, {})
            size = sizes.get(one.leader_id, max(sizes.values(), default=0))
            rate_in, rate_out = rates.of(place)
            replicas = tuple(one.replica_nodes)
            found.append(
                Partition(
                    place.topic,
                    place.partition,
                    replicas,
                    one.leader_id if one.leader_id >= 0 else None,
                    size,
                    rate_in,
                    rate_out,
                    behind=frozenset(replicas) - frozenset(one.isr_nodes),
                    offline=frozenset(one.offline_replicas) & frozenset(alive),
                )
            )
    return found


def _measured(partitions: list[Partition], first: _Look, second: _Look) -> list[Partition]:
    """The partitions with the rates and the CPU that brokers' own counters tell, where they do."""
    seconds = max(1e-3, second.at_seconds - first.at_seconds)
    by_place: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, one in enumerate(partitions):
        if one.leader is not None:
            by_place[one.leader, one.topic].append(number)
    measured = list(partitions)
    cpu = 0.0
    for broker, now in second.counters.items():
        before = first.counters.get(broker)
        if before is None:
            continue
        cpu += max(0.0, now.cpu_seconds - before.cpu_seconds) / seconds * 100
        for topic in now.bytes_in.keys() | now.bytes_out.keys():
            numbers = by_place.get((broker, topic), [])
            into = _difference(before.bytes_in, now.bytes_in, topic) / seconds
            out = _difference(before.bytes_out, now.bytes_out, topic) / seconds
            ins = _shares([measured[number].rate_in for number in numbers], into)
            outs = _shares([measured[number].rate_out for number in numbers], out)
            for number, rate_in, rate_out in zip(numbers, ins, outs, strict=True):
                measured[number] = replace(measured[number], rate_in=rate_in, rate_out=rate_out)
    return _with_cpu(measured, cpu)


def _difference(before: Mapping[str, float], now: Mapping[str, float], topic: str) -> float:
    return max(0.0, now.get(topic, 0.0) - before.get(topic, 0.0))


def _shares(estimated: Sequence[float], total: float) -> list[float]:
    """A total, divided as the estimates are; evenly where they say nothing."""
    whole = sum(estimated)
    if whole > 0:
        return [total * each / whole for each in estimated]
    return [total / len(estimated)] * len(estimated) if estimated else []


def _with_cpu(partitions: Sequence[Partition], cpu: float) -> list[Partition]:
    """The CPU of all brokers, divided by the bytes that each replica takes and sends."""
    weight = sum(
        CPU_OF_LEADER_IN * one.rate_in
        + CPU_OF_LEADER_OUT * one.rate_out
        + CPU_OF_FOLLOWER_IN * one.rate_in * (len(one.replicas) - 1)
        for one in partitions
    )
    if cpu <= 0 or weight <= 0:
        return list(partitions)
    cost = cpu / weight
    return [
        replace(
            one,
            cpu=cost * (CPU_OF_LEADER_IN * one.rate_in + CPU_OF_LEADER_OUT * one.rate_out),
            cpu_follower=cost * CPU_OF_FOLLOWER_IN * one.rate_in,
        )
        for one in partitions
    ]
