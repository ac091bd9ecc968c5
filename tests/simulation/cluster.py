"""One run: a cluster whose shape comes from the seed, clients, faults, healing, and the final checks."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ottla.core.image.image import MetadataImage
from ottla.core.quorum.api import (
    ListenerEndpoint,
    QuorumSettings,
    ReplicaKey,
    SnapshotId,
    Voter,
    VoterSet,
)
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.schema import Message
from simulation.clients import Administrator, Client, Consumer, Producer
from simulation.controller_node import Refused, forget_decoded
from simulation.faults import Chaos
from simulation.node import QUORUM, Node, Settings
from simulation.observer import Observer, Violation
from simulation.quorum_node import SNAPSHOTS, address_of, encode_snapshot
from simulation.world.network import Network
from simulation.world.scheduler import MILLISECOND, Scheduler
from support.clients.histories import (
    History,
    Poll,
    aborted_reads,
    duplicates,
    lost_writes,
    values_that_changed,
)

FORMING_MS = 30_000
"""The time by which a cluster without faults has started."""
HEALING_MS = 90_000
"""The time by which a cluster has recovered when its faults are over."""
CARELESS = "careless"
"""The producer without promises: its records may be lost, or duplicated."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The kind of a cluster, its load and its duration."""

    controllers: tuple[int, ...]
    brokers: tuple[int, ...]
    dynamic_voters: bool
    settings: Settings
    partition_count: int
    replication_factor: int
    skewed_clocks: bool
    through_bytes: bool
    late_voters: int
    chaos_ms: int
    fault_count: int
    faults: tuple[str, ...] = ()
    """The names of the faults; empty for all kinds."""

    @staticmethod
    def drawn(scheduler: Scheduler) -> Shape:
        """A random shape."""
        dice = scheduler.random
        kind = dice.randrange(20)
        if kind < 11:
            controllers, brokers = (1, 2, 3), (1, 2, 3)
        elif kind < 14:
            controllers, brokers = (1, 2, 3), (1, 2, 3, 4)
        elif kind < 16:
            controllers, brokers = (1, 2, 3, 4, 5), (1, 2, 3, 4, 5)
        elif kind < 18:
            controllers, brokers = (1, 2, 3), (4, 5, 6)
        elif kind < 19:
            controllers, brokers = (1,), (2, 3, 4)
        else:
            controllers, brokers = (1, 2, 3, 4, 5), (3, 4, 5, 6, 7)
        min_insync_replicas = dice.choice((1, 2, 2, 2))
        return Shape(
            controllers=controllers,
            brokers=brokers,
            dynamic_voters=dice.random() < 0.7,
            settings=Settings(
                records_between_snapshots=dice.choice((15, 40, 1000)),
                kept_snapshots=dice.choice((1, 2)),
                min_insync_replicas=min_insync_replicas,
                eligible_leader_replicas=dice.random() < 0.8,
                quorum=dataclasses.replace(
                    QUORUM,
                    fetch_max_bytes=dice.choice((100, 8 << 20)),
                    snapshot_fetch_max_bytes=dice.choice((300, 8 << 20)),
                    auto_join=dice.random() < 0.3,
                ),
            ),
            partition_count=dice.choice((1, 1, 2, 3)),
            replication_factor=dice.choice((3, 3, 3, 2)),
            skewed_clocks=dice.random() < 0.5,
            through_bytes=dice.random() < 0.1,
            late_voters=1 if len(controllers) > 2 and dice.random() < 0.3 else 0,
            chaos_ms=dice.choice((2000, 3000, 6000)),
            fault_count=dice.choice((1, 3, 6, 12, 20)),
        )


@dataclass(slots=True)
class Result:
    """The end of a run."""

    seed: int
    problems: list[str]
    digest: str
    trace: list[tuple[Any, ...]]
    simulated_ms: int
    events: int
    sends: int
    acknowledged: int
    shape: Shape
    error: BaseException | None = None


def through_bytes(message: Any) -> Any:
    """Encode and decode the protocol's messages; leave other objects as they are."""
    if not isinstance(message, Message):
        return message
    version = type(message).MAX_VERSION
    return type(message).decode(message.encode(version), version)


@dataclass(slots=True)
class Cluster:
    """The nodes, the clients and the world of one run."""

    seed: int
    shape: Shape
    scheduler: Scheduler
    network: Network
    observer: Observer
    nodes: list[Node] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    history: History = field(default_factory=History)
    unsafe_history: History = field(default_factory=History)
    cluster_id: str = "simulated-cluster-00"
    topic: str = "events"
    admin: Administrator = field(init=False)
    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)

    @classmethod
    def from_seed(cls, seed: int, shape: Shape | None = None) -> Cluster:
        """A cluster that has not started."""
        forget_decoded()
        scheduler = Scheduler(seed)
        if shape is None:
            shape = Shape.drawn(scheduler)
        network = Network(scheduler)
        if shape.through_bytes:
            network.codec = through_bytes
        cluster = cls(seed, shape, scheduler, network, Observer(scheduler))
        cluster._make_nodes()
        cluster._make_clients()
        return cluster

    # -- set-up -----------------------------------------------------------------------------------------

    def _make_nodes(self) -> None:
        shape, dice = self.shape, self.scheduler.random
        directory_ids = {
            node_id: UUID(int=dice.getrandbits(128), version=4)
            for node_id in sorted({*shape.controllers, *shape.brokers})
        }
        initial = shape.controllers
        if shape.dynamic_voters and shape.late_voters:
            initial = initial[: -shape.late_voters]
        voters = VoterSet(
            tuple(
                Voter(
                    ReplicaKey(each, directory_ids[each] if shape.dynamic_voters else UUID(int=0)),
                    (listener_of(each),),
                )
                for each in initial
            )
        )
        bootstrap = tuple(address_of(each) for each in shape.controllers)
        for node_id, directory_id in directory_ids.items():
            is_controller = node_id in shape.controllers
            quorum: QuorumSettings = dataclasses.replace(
                shape.settings.quorum, bootstrap_servers=bootstrap, may_vote=is_controller
            )
            node = Node(
                self.scheduler,
                self.network,
                self.observer,
                dataclasses.replace(shape.settings, quorum=quorum),
                node_id=node_id,
                cluster_id=self.cluster_id,
                is_controller=is_controller,
                is_broker=node_id in shape.brokers,
                listeners=(listener_of(node_id),),
                static_voters=None if shape.dynamic_voters else voters,
                directory_id=directory_id,
            )
            if shape.dynamic_voters and node_id in initial:
                snapshot = encode_snapshot([], voters, 1)
                node.disk.write(SNAPSHOTS, {SnapshotId(0, 0): snapshot}, sync=True)
            if shape.skewed_clocks:
                node.host.rate = 1 + dice.uniform(-0.03, 0.03)
                node.host.skew_ms = dice.randrange(100_000)
            node.disk.sync_ms = dice.choice((0.3, 1.0, 4.0))
            self.nodes.append(node)

    def _make_clients(self) -> None:
        shape, dice = self.shape, self.scheduler.random
        brokers = list(shape.brokers)

        def add(kind: type[Client], name: str, history: History) -> Any:
            client = kind(self.scheduler, self.network, name, brokers, history)
            self.clients.append(client)
            return client

        self.admin = add(Administrator, "admin", self.history)
        self.admin._known_brokers = list(shape.controllers)
        for number in range(dice.choice((1, 2))):
            self.producers.append(add(Producer, f"p{number}", self.history))
        if dice.random() < 0.4:
            careless: Producer = add(Producer, CARELESS, self.unsafe_history)
            careless.acks = dice.choice((1, 0, -1))
            careless.idempotent = dice.random() < 0.5
            self.producers.append(careless)
        for number in range(self.shape.partition_count):
            self.consumers.append(add(Consumer, f"c{number}", self.history))

    # -- queries ----------------------------------------------------------------------------------------

    def node(self, node_id: int) -> Node:
        """A node by its id."""
        return next(node for node in self.nodes if node.node_id == node_id)

    def active_controller(self) -> Node | None:
        """The active controller with the newest epoch, or None."""
        active = [node for node in self.nodes if node.host.alive and node.controller.active]
        return max(active, key=lambda node: node.controller.epoch, default=None)

    def voters(self) -> tuple[int, ...]:
        """The voters as the newest leader knows them."""
        active = self.active_controller()
        return () if active is None else active.quorum.quorum.voters.node_ids

    # -- running ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """The whole run. Raises Violation, or an error of the core."""
        shape, dice, scheduler = self.shape, self.scheduler.random, self.scheduler
        for node in self.nodes:
            scheduler.after_ms(dice.randrange(200), node.start)
        created: list[bool] = []
        self.admin.host.spawn("create", self._create_topic(created))
        self._run_until(FORMING_MS, lambda: bool(created), "the topic is created")
        for producer in self.producers:
            producer.host.spawn("produce", producer.run(self.topic, shape.partition_count))
        for index, consumer in enumerate(self.consumers):
            consumer.host.spawn("consume", consumer.run(self.topic, index))
        chaos = Chaos(self)
        chaos.begin(shape.chaos_ms, shape.fault_count)
        scheduler.run(scheduler.now + shape.chaos_ms * MILLISECOND)
        chaos.heal()
        scheduler.run(scheduler.now + 500 * MILLISECOND)
        for producer in self.producers:
            producer.stopped = True
        self._run_until(
            HEALING_MS,
            lambda: all(producer.finished for producer in self.producers),
            "producers are told what became of their batches",
        )
        self._converge()
        for consumer in self.consumers:
            consumer.stopped = True
        self._check_end()

    def _run_until(self, limit_ms: int, condition: Any, goal: str) -> None:
        """Let time pass until the condition holds, which is checked now and then."""
        scheduler = self.scheduler
        end = scheduler.now + limit_ms * MILLISECOND
        while not condition():
            if scheduler.now >= end:
                raise Violation(f"after {limit_ms} ms without faults: not yet, {goal}")
            scheduler.run(scheduler.now + 100 * MILLISECOND)

    async def _create_topic(self, created: list[bool]) -> None:
        shape = self.shape

        def too_early(answer: Any) -> bool:
            return isinstance(answer, Refused) or answer.topics[0].error_code not in (0, 36)

        topic = CreatableTopic(
            name=self.topic,
            num_partitions=shape.partition_count,
            replication_factor=min(shape.replication_factor, len(shape.brokers)),
            assignments=[],
            configs=[],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
        answer = await self.admin.ask(request, 500, too_early)
        if answer is not None:
            created.append(True)

    def _converge(self) -> None:
        end = self.scheduler.now + HEALING_MS * MILLISECOND
        while True:
            missing = self._missing()
            if missing is None:
                return
            if self.scheduler.now >= end:
                raise Violation(f"{HEALING_MS} ms after healing: {missing}")
            self.scheduler.run(self.scheduler.now + 100 * MILLISECOND)

    def _missing(self) -> str | None:
        """The first thing that a healthy cluster has and this one lacks, or None."""
        active = self.active_controller()
        if active is None:
            return "no active controller"
        image = active.controller.image
        if active.quorum.log.log_end_offset != image.last_offset + 1:
            return "the controller's log is not committed up to its end"
        for node in self.nodes:
            if node.controller.image.last_offset != image.last_offset:
                return (
                    f"{node.host.name} has applied {node.controller.image.last_offset} of {image.last_offset}"
                )
        for node in self.nodes:
            broker = node.broker
            if broker is not None and node.is_broker:
                registered = image.brokers.get(node.node_id)
                if registered is None or not registered.active:
                    return f"{node.host.name} is not active: {registered}"
                if registered.broker_epoch != broker.broker_epoch:
                    return f"{node.host.name} has an old broker epoch"
        for topic in image.topics.values():
            for index, partition in topic.partitions.items():
                name = f"{topic.name}-{index}"
                if set(partition.isr) != set(partition.replicas) or partition.adding_replicas:
                    return f"{name} is not in sync: {partition}"
                if partition.leader < 0 or partition.removing_replicas:
                    return f"{name} has no leader: {partition}"
                key = (topic.topic_id, index)
                replicas = {
                    each: self.node(each).broker.replicas.get(key)  # type: ignore[union-attr]
                    for each in partition.replicas
                }
                led = replicas[partition.leader]
                if led is None or led.leader is None:
                    return f"n{partition.leader} does not lead {name}"
                for each, replica in replicas.items():
                    if replica is None or replica.high_watermark != led.log.log_end_offset:
                        return f"n{each} does not know that {name} is committed"
                    if replica.log.log_end_offset != led.log.log_end_offset:
                        return f"n{each} still has a tail of {name} that was never committed"
        return None

    # -- checking ---------------------------------------------------------------------------------------

    def _check_end(self) -> None:
        active = self.active_controller()
        assert active is not None
        image = active.controller.image
        for node in self.nodes:
            if node.controller.image != image:
                raise Violation(f"{node.host.name} has another image at {image.last_offset}")
            broker = node.broker
            if broker is None or not node.is_broker:
                continue
            for replica in broker.replicas.values():
                self.observer.compare(node, replica, replica.log.log_end_offset)
        voters = {node.quorum.quorum.voters.node_ids for node in self.nodes}
        if len(voters) > 1:
            raise Violation(f"the nodes disagree on who votes: {sorted(voters)}")
        final = self._final_polls(image)
        problems = [
            *values_that_changed(self.history),
            *(each for each in duplicates(self.history) if not each.startswith(CARELESS)),
            *lost_writes(self.history, final),
            *self._strange_reads(final),
            *aborted_reads(self._known_history(final)),
        ]
        if problems:
            raise Violation("; ".join(problems[:5]))

    def _final_polls(self, image: MetadataImage) -> list[Poll]:
        """All records that a consumer can read in the end, by partition."""
        polls: list[Poll] = []
        done: list[int] = []
        topic = image.topics[self.topic]
        reader = self.consumers[0]

        async def read(index: int, end: int) -> None:
            records = await reader.read_all(self.topic, index, end)
            polls.append(Poll((self.topic, index), True, 0, records))
            self.history.poll((self.topic, index), records, committed_only=True)
            done.append(index)

        for index in topic.partitions:
            reader.host.spawn(
                "read all", read(index, self.observer.committed_to.get((topic.topic_id, index), 0))
            )
        self._run_until(HEALING_MS, lambda: len(done) == len(topic.partitions), "everything is read")
        return polls

    def _known_history(self, final: list[Poll]) -> History:
        """All sends with the final reads: values that were never sent must not be there."""
        return History(sends={**self.history.sends, **self.unsafe_history.sends}, polls=final)

    def _strange_reads(self, final: list[Poll]) -> list[str]:
        """Values read from partitions that they were not sent to."""
        found = []
        for poll in final:
            for offset, value in poll.records:
                send = self.history.sends.get(value) or self.unsafe_history.sends.get(value)
                if send is not None and send.partition != poll.partition:
                    found.append(f"{value} at {offset} of {poll.partition} was sent to {send.partition}")
        return found


def listener_of(node_id: int) -> ListenerEndpoint:
    """A controller's listener."""
    return ListenerEndpoint("CONTROLLER", f"n{node_id}", 9093)


def run_seed(seed: int, shape: Shape | None = None) -> Result:
    """Run a seed to its end, or up to the first violation."""
    cluster = Cluster.from_seed(seed, shape)
    problems: list[str] = []
    error: BaseException | None = None
    try:
        cluster.run()
    except Violation as violation:
        problems.append(str(violation))
        error = violation
    except Exception as failure:
        problems.append(f"{type(failure).__name__}: {failure}")
        error = failure
    finally:
        for each in (*cluster.nodes, *cluster.clients):
            each.host.stop()
    return Result(
        seed=seed,
        problems=problems,
        digest=cluster.observer.digest(),
        trace=cluster.observer.trace,
        simulated_ms=cluster.scheduler.now // MILLISECOND,
        events=cluster.scheduler.events_run,
        sends=len(cluster.history.sends),
        acknowledged=sum(send.offset >= 0 for send in cluster.history.sends.values()),
        shape=cluster.shape,
        error=error,
    )
