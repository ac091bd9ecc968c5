"""The observer of a run: checks the invariants at every moment, and keeps the trace.

The invariants:
- one leader an epoch, in the quorum and in every partition;
- a committed batch of the metadata is the same on every node, for good; so are snapshots at one offset;
- records that a partition's leader has once reported as committed are in the log of every later leader;
- a replica never cuts committed records;
- only the newest known leader moves the high watermark over records that other replicas lack.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.core.image.image import MetadataDelta, MetadataImage
from ottla.core.quorum.api import Became, Role, SnapshotId
from ottla.core.replica.leader import PartitionLeader
from ottla.protocol.record_batch import BatchHeader
from ottla.protocol.schema import Message
from simulation.wire import PartitionKey
from simulation.world.scheduler import Scheduler

if TYPE_CHECKING:
    from simulation.broker_node import Replica
    from simulation.node import Node


class Violation(Exception):
    """A violated invariant."""


class Observer:
    """The history of one cluster."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.trace: list[tuple[Any, ...]] = []
        self._quorum_leaders: dict[int, int] = {}
        self._metadata: dict[int, bytes] = {}
        self.image = MetadataImage()
        """All metadata that any node ever considered committed."""
        self._snapshots: dict[SnapshotId, bytes] = {}
        self._leaders: dict[tuple[PartitionKey, int], tuple[int, int]] = {}
        self.committed_to: dict[PartitionKey, int] = {}
        self._committed: dict[PartitionKey, list[tuple[int, int, int, int]]] = {}
        """Base offset, leader epoch and CRC of every committed
        batch; the epoch of the leader that reported it.
        """

    # -- the trace --------------------------------------------------------------------------------------

    def note(self, node: Node | None, event: str, *details: Any) -> None:
        """Add a line to the trace."""
        name = "world" if node is None else node.host.name
        self.trace.append((self._scheduler.now, name, event, *details))

    def digest(self) -> str:
        """A hash of the trace and of the state of the random numbers."""
        found = hashlib.sha256()
        for line in self.trace:
            found.update(repr(line).encode())
        found.update(repr((self._scheduler.events_run, self._scheduler.random.getrandbits(64))).encode())
        return found.hexdigest()

    # -- the quorum and its metadata --------------------------------------------------------------------

    def became(self, node: Node, became: Became) -> None:
        """A node has a new role in an epoch."""
        self.note(node, "became", became.role.value, became.epoch, became.leader_id)
        leader_id = node.node_id if became.role is Role.LEADER else became.leader_id
        if leader_id >= 0:
            known = self._quorum_leaders.setdefault(became.epoch, leader_id)
            if known != leader_id:
                raise Violation(f"epoch {became.epoch} has two leaders: {known} and {leader_id}")

    def committed(self, node: Node, header: BatchHeader, batch: bytes) -> bool:
        """A node considers a batch of the metadata committed. Whether it is the first one to do so."""
        is_news = header.base_offset not in self._metadata
        known = self._metadata.setdefault(header.base_offset, batch)
        if known is not batch and known != batch:
            raise Violation(f"{node.host.name}: the metadata at {header.base_offset} is not what it was")
        return is_news

    def changed(self, header: BatchHeader, records: Sequence[Message]) -> None:
        """The metadata has newly committed records."""
        delta = MetadataDelta()
        for record in records:
            self.note(None, "record", header.base_offset, record)
            self.image.apply(record, delta)
        self.image.last_offset = header.last_offset

    def snapshot_written(self, node: Node, snapshot: SnapshotId, data: bytes) -> None:
        """A node has written a snapshot."""
        self.note(node, "snapshot", *snapshot)
        if self._snapshots.setdefault(snapshot, data) != data:
            raise Violation(f"{node.host.name}: the snapshot {snapshot} is not the one of another node")

    def snapshot_loaded(self, node: Node, snapshot: SnapshotId, image: MetadataImage) -> None:
        """A node starts from a snapshot."""
        self.note(node, "loads snapshot", *snapshot)

    # -- partitions -------------------------------------------------------------------------------------

    def leads(self, node: Node, replica: Replica, leader: PartitionLeader) -> None:
        """A broker begins to lead a partition."""
        key = replica.key
        self.note(
            node,
            "leads",
            replica.topic,
            replica.index,
            leader.leader_epoch,
            sorted(leader.isr),
            leader.high_watermark,
            replica.log.log_end_offset,
        )
        known = self._leaders.setdefault((key, leader.leader_epoch), (node.node_id, node.host.life))
        if known[0] != node.node_id:
            raise Violation(
                f"{replica.topic}-{replica.index}: epoch {leader.leader_epoch} has two leaders, "
                f"{known[0]} and {node.node_id}"
            )
        earlier = next(
            (base for base, *_, by in self._committed.get(key, ()) if by >= leader.leader_epoch),
            self.committed_to.get(key, 0),
        )
        if replica.log.log_end_offset < earlier:
            raise Violation(
                f"{replica.topic}-{replica.index}: {node.host.name} leads epoch {leader.leader_epoch} with a "
                f"log that ends at {replica.log.log_end_offset}, {earlier} was committed in earlier epochs"
            )
        self.compare(node, replica, earlier)

    def compare(self, node: Node, replica: Replica, limit: int) -> None:
        """Check that the replica has the committed records below `limit`."""
        start = replica.log.log_start_offset
        own = [
            (header.base_offset, header.partition_leader_epoch, header.crc)
            for header, _ in replica.log.batches(start, limit)
        ]
        expected = [each[:3] for each in self._committed.get(replica.key, ()) if start <= each[0] < limit]
        if own != expected:
            differing = [each for each in zip(own, expected, strict=False) if each[0] != each[1]]
            raise Violation(
                f"{replica.topic}-{replica.index}: the log of {node.host.name} differs from what was "
                f"committed below {limit}: {len(own)} batches against {len(expected)}, {differing[:1]}"
            )

    def progress(self, node: Node, replica: Replica, leader: PartitionLeader) -> None:
        """A leader's high watermark may have moved."""
        key = replica.key
        known = self.committed_to.get(key, 0)
        high_watermark = leader.high_watermark
        if high_watermark <= known:
            return
        if high_watermark > replica.log.log_end_offset:
            raise Violation(
                f"{replica.topic}-{replica.index}: {node.host.name} says that {high_watermark} is committed, "
                f"its log ends at {replica.log.log_end_offset}"
            )
        committed = self._committed.setdefault(key, [])
        committed += [
            (header.base_offset, header.partition_leader_epoch, header.crc, leader.leader_epoch)
            for header, _ in replica.log.batches(known, high_watermark)
        ]
        self.committed_to[key] = high_watermark

    def appends(self, node: Node, replica: Replica, leader: PartitionLeader) -> None:
        """A leader is about to append a client's batch."""

    def follows(self, node: Node, replica: Replica) -> None:
        """A follower has applied an answer."""
        follower = replica.follower
        if follower is not None and follower.high_watermark > self.committed_to.get(replica.key, 0):
            raise Violation(
                f"{replica.topic}-{replica.index}: {node.host.name} follows with high watermark "
                f"{follower.high_watermark}, {self.committed_to.get(replica.key, 0)} is committed"
            )

    def truncates(self, node: Node, replica: Replica, offset: int) -> None:
        """A follower is about to cut its log."""
        self.note(node, "truncates", replica.topic, replica.index, offset, replica.log.log_end_offset)
        committed = {each[:3] for each in self._committed.get(replica.key, ())}
        for header, _ in replica.log.batches(offset):
            if (header.base_offset, header.partition_leader_epoch, header.crc) in committed:
                raise Violation(
                    f"{replica.topic}-{replica.index}: {node.host.name} cuts its log at {offset}, and "
                    f"with it what was committed at {header.base_offset}"
                )
