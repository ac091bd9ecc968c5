"""Faults, and the requests of administrators meanwhile, by a plan from the seed.

All faults that Kafka promises to survive may happen, at any time and together: kills, pauses, partitions,
slow disks. A power loss is different: replication without fsync promises that an acknowledged record lives as
long as one in-sync replica keeps it, and a node that lost its tail counts as in sync until the controller
knows. So a node loses power only while another in-sync node has all the records that it has, and there are no
other faults before the node has registered anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.core.decisions.decision import Decision
from ottla.core.image.image import MetadataImage
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.records.no_op_record import NoOpRecord
from simulation.node import Node
from simulation.wire import PartitionKey

if TYPE_CHECKING:
    from simulation.cluster import Cluster

MAX_DOWN_MS = 3000


class Chaos:
    """The faults of one run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        self._random = cluster.scheduler.random
        self._over = False
        self._powerless: Node | None = None
        self._topics_made = 0
        self._faults: dict[str, tuple[int, Callable[[], None]]] = {
            "kill": (6, self._kill),
            "blink": (3, self._blink),
            "kill the controller": (2, self._kill_controller),
            "kill somewhere": (4, self._kill_somewhere),
            "kill a voter": (2, self._kill_voter),
            "lose power": (5, self._lose_power),
            "stop": (3, self._stop),
            "partition": (4, self._partition),
            "cut one way": (2, self._cut_one_way),
            "pause": (3, self._pause),
            "bad network": (2, self._bad_network),
            "slow link": (1, self._slow_link),
            "slow disk": (1, self._slow_disk),
            "reassign": (2, self._reassign),
            "elect": (1, self._elect),
            "move leader": (2, self._move_leader),
            "bounce leader": (1, self._bounce_leader),
            "topic": (1, self._topic_comes_and_goes),
            "write": (1, self._write),
            "voters": (2 if cluster.shape.dynamic_voters else 0, self._change_voters),
        }

    def begin(self, duration_ms: int, count: int) -> None:
        """Let `count` faults happen in that time."""
        names = self._cluster.shape.faults or tuple(self._faults)
        hat = [self._faults[name][1] for name in names for _ in range(self._faults[name][0])]
        for _ in range(count):
            fault = self._random.choice(hat)
            self._scheduler.after_ms(self._random.randrange(duration_ms), self._happen, fault)

    def _happen(self, fault: Callable[[], None]) -> None:
        if not self._over and not self._must_be_calm():
            fault()

    def _must_be_calm(self) -> bool:
        """Whether a node has lost power, and the controller may still count it as in sync."""
        node = self._powerless
        if node is None:
            return False
        image = self._cluster.observer.image
        registered = image.brokers.get(node.node_id)
        broker = node.broker
        if registered is None or broker is None or broker.broker_epoch != registered.broker_epoch:
            return True
        for topic in image.topics.values():
            for partition in topic.partitions.values():
                if node.node_id in (*partition.elr, *partition.last_known_elr):
                    return True  # the last leader, elected if the eligible ones die as well
        self._powerless = None
        return False

    def heal(self) -> None:
        """End all faults; nodes that are down come back."""
        self._over = True
        self._cluster.observer.note(None, "heals")
        self._cluster.network.heal()
        for node in self._cluster.nodes:
            node.disk.sync_ms = 1.0
            node.host.be_safe()
            if not node.host.alive:
                self._start_again(node)

    # -- nodes --------------------------------------------------------------------------------------------

    def _node(self) -> Node:
        return self._random.choice(self._cluster.nodes)

    def _later(self, node: Node) -> None:
        down_ms = self._random.choice((200, 1000, MAX_DOWN_MS))
        self._scheduler.after_ms(self._random.randrange(20, down_ms), self._start_again, node)

    def _start_again(self, node: Node) -> None:
        if not node.host.alive:
            node.start()

    def _watch_down(self, node: Node) -> None:
        """Restart the node after any end."""

        def look() -> None:
            if not node.host.alive:
                self._later(node)
            elif node.stopping or not self._over:
                self._scheduler.after_ms(300, look)

        look()

    def _kill(self) -> None:
        node = self._node()
        if node.host.alive:
            node.kill()
            self._later(node)

    def _blink(self) -> None:
        """Kill a node and restart it at once."""
        node = self._node()
        if node.host.alive:
            node.kill()
            self._scheduler.after_ms(self._random.randrange(1, 60), self._start_again, node)

    def _kill_controller(self) -> None:
        node = self._cluster.active_controller()
        if node is not None:
            node.kill()
            self._later(node)

    def _kill_somewhere(self) -> None:
        """Kill a node in the middle of its next operation."""
        node = self._node()
        if node.host.alive:
            node.host.arm_kill(self._random.randint(1, 60))
            self._watch_down(node)

    def _kill_voter(self) -> None:
        """Kill a node right after its vote and restart it at once: it must remember the vote."""
        node = self._node()
        if node.host.alive and node.is_controller:
            node.host.arm_kill_after_promise(self._random.randint(2, 9))

            def look() -> None:
                if not node.host.alive:
                    self._start_again(node)
                elif not self._over and node.host.in_danger:
                    self._scheduler.after_ms(1, look)

            look()

    def _lose_power(self) -> None:
        node = self._node()
        if not node.is_broker:  # a quorum's log is synced before other nodes hear of it
            if node.host.alive:
                node.lose_power()
                self._later(node)
        elif node.host.alive and self._is_calm() and self._is_kept(node):
            self._powerless = node
            node.lose_power()
            self._later(node)

    def _is_calm(self) -> bool:
        """Whether no fault is pending."""
        network = self._cluster.network
        faults = network.faults
        if network.blocked or network.slow_ms or faults.loss or faults.late:
            return False
        return not any(each.host.in_danger or each.stopping for each in self._cluster.nodes)

    def _is_kept(self, node: Node) -> bool:
        """Whether another in-sync node has all committed records that this node has."""
        image = self._cluster.observer.image
        for key, committed_to in self._cluster.observer.committed_to.items():
            topic = image.topics_by_id.get(key[0])
            if topic is None or committed_to == 0:
                continue
            partition = topic.partitions[key[1]]
            if node.node_id in (*partition.replicas, *partition.isr) and not any(
                self._keeps(image, key, committed_to, each) for each in partition.isr if each != node.node_id
            ):
                return False
        return True

    def _keeps(self, image: MetadataImage, key: PartitionKey, committed_to: int, node_id: int) -> bool:
        node = self._cluster.node(node_id)
        registered = image.brokers.get(node_id)
        if not node.host.alive or node.broker is None or registered is None or not registered.active:
            return False
        replica = node.broker.replicas.get(key)
        return (
            node.broker.broker_epoch == registered.broker_epoch
            and replica is not None
            and replica.log.log_end_offset >= committed_to
        )

    def _stop(self) -> None:
        node = self._node()
        if node.host.alive:
            node.stop()
            self._watch_down(node)

    def _pause(self) -> None:
        node = self._node()
        if not node.host.alive:
            return
        duration_ms = self._random.choice((100, 700, 2500, 4000))
        self._cluster.observer.note(node, "stands still", duration_ms)
        node.host.stand_still(duration_ms)

    # -- network and disk ---------------------------------------------------------------------------------

    def _groups(self) -> tuple[list[str], list[str]]:
        names = [node.host.name for node in self._cluster.nodes]
        self._random.shuffle(names)
        size = self._random.randint(1, len(names) // 2)
        clients = [client.host.name for client in self._cluster.clients]
        with_group = [name for name in clients if self._random.random() < 0.3]
        with_rest = [name for name in clients if name not in with_group]
        return names[:size] + with_group, names[size:] + with_rest

    def _partition(self) -> None:
        group, rest = self._groups()
        self._isolate(group, rest, one_way=False)

    def _cut_one_way(self) -> None:
        group, rest = self._groups()
        self._isolate(group, rest, one_way=True)

    def _isolate(self, group: list[str], rest: list[str], *, one_way: bool) -> None:
        self._cluster.observer.note(None, "cuts", group, "one way" if one_way else "both ways")
        self._cluster.network.isolate(group, rest, one_way=one_way)
        self._scheduler.after_ms(self._random.randrange(200, 4000), self._reconnect)

    def _reconnect(self) -> None:
        self._cluster.observer.note(None, "reconnects")
        self._cluster.network.reconnect()

    def _bad_network(self) -> None:
        faults = self._cluster.network.faults
        faults.loss = self._random.choice((0.0, 0.01, 0.05))
        faults.duplication = self._random.choice((0.0, 0.05, 0.2))
        faults.late = self._random.choice((0.0, 0.1, 0.5))
        faults.late_ms = self._random.choice((20, 300, 1500))
        self._cluster.observer.note(None, "network", faults.loss, faults.duplication, faults.late)

    def _slow_link(self) -> None:
        one, other = self._random.sample([node.host.name for node in self._cluster.nodes], 2)
        self._cluster.network.slow_ms[one, other] = self._random.choice((20, 150, 600))

    def _slow_disk(self) -> None:
        node = self._node()
        node.disk.sync_ms = self._random.choice((20.0, 200.0, 800.0))
        self._cluster.observer.note(node, "slow disk", node.disk.sync_ms)

    # -- administrators -----------------------------------------------------------------------------------

    def _ask(self, name: str, request: object) -> None:
        admin = self._cluster.admin

        async def ask() -> None:
            answer = await admin.ask(request, 6)  # type: ignore[arg-type]
            self._cluster.observer.note(None, name, type(answer).__name__)

        admin.host.spawn(name, ask())

    def _reassign(self) -> None:
        image = self._cluster.observer.image
        topic = image.topics.get(self._cluster.topic)
        brokers = [node.node_id for node in self._cluster.nodes if node.is_broker]
        if topic is None:
            return
        index = self._random.randrange(len(topic.partitions))
        replicas = self._random.sample(brokers, min(len(brokers), self._cluster.shape.replication_factor))
        self._move(topic.name, index, replicas)

    def _move(self, topic: str, index: int, replicas: list[int]) -> None:
        self._cluster.observer.note(None, "reassigns", index, replicas)
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        self._ask(
            "reassigned",
            AlterPartitionReassignmentsRequest(
                timeout_ms=1000, topics=[ReassignableTopic(name=topic, partitions=[partition])]
            ),
        )

    def _move_leader(self) -> None:
        """Assign the same replicas in another order, and elect the first of them."""
        image = self._cluster.observer.image
        topic = image.topics.get(self._cluster.topic)
        if topic is None:
            return
        index = self._random.randrange(len(topic.partitions))
        replicas = list(topic.partitions[index].replicas)
        self._random.shuffle(replicas)
        self._move(topic.name, index, replicas)
        self._scheduler.after_ms(self._random.randrange(20, 300), self._elect)

    def _bounce_leader(self) -> None:
        """Let another replica lead for a moment."""
        self._move_leader()
        self._scheduler.after_ms(self._random.randrange(100, 400), self._happen, self._move_leader)

    def _elect(self) -> None:
        self._ask("elected", ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1000))

    def _topic_comes_and_goes(self) -> None:
        name = f"other-{self._topics_made // 2}"
        self._topics_made += 1
        if self._topics_made % 2:
            topic = CreatableTopic(
                name=name, num_partitions=2, replication_factor=2, assignments=[], configs=[]
            )
            request: object = CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
        else:
            request = DeleteTopicsRequest(topic_names=[name], topics=[], timeout_ms=1000)
        self._ask("topic", request)

    def _write(self) -> None:
        """Every node that considers itself the controller writes a few batches,
        which may never be committed.
        """
        count = self._random.randint(1, 8)

        def write(node: Node) -> None:
            for _ in range(count):
                node.controller.submit(lambda image: Decision([NoOpRecord()], None))

        for node in self._cluster.nodes:
            if node.host.alive and node.controller.active:
                node.host.guard(write, node)  # an armed kill may strike in it

    def _change_voters(self) -> None:
        controllers = [node for node in self._cluster.nodes if node.is_controller]
        node = self._random.choice(controllers)
        voters = self._cluster.voters()
        self._cluster.observer.note(None, "changes voters", node.node_id, sorted(voters))
        if node.node_id in voters:
            if len(voters) <= 2:
                return
            request: object = RemoveRaftVoterRequest(
                cluster_id=self._cluster.cluster_id,
                voter_id=node.node_id,
                voter_directory_id=node.directory_id,
            )
        else:
            request = AddRaftVoterRequest(
                cluster_id=self._cluster.cluster_id,
                timeout_ms=2000,
                voter_id=node.node_id,
                voter_directory_id=node.directory_id,
                listeners=[Listener(name="CONTROLLER", host=node.host.name, port=9093)],
            )
        self._ask("voters", request)
