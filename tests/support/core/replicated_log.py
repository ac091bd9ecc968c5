"""One partition with its replicas in memory, a controller, and everything that may happen between them.

The product's leaders and followers (core/replica) run over fake logs whose unsynced tails a crash takes.
Fetches, answers and in-sync updates travel one by one and may get lost or come late; nodes hear of the
metadata when they hear of it, so that there are leaders who do not know that they are none any more. The
controller elects as Kafka's does: from the in-sync set, else from the eligible replicas (KIP-966), never from
others. A machine dies with its unsynced tail only while another one has all records: as many at once as
min.insync.replicas allows for.

Records that were acknowledged with acks=all, or that any replica called committed, must stay.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla.core.replica import reading
from ottla.core.replica.follower import (
    AdvanceLogStart,
    AppendFetched,
    AskOffsets,
    FetchAnswer,
    FetchPosition,
    PartitionFollower,
    StartOver,
    Truncate,
)
from ottla.core.replica.leader import InSyncUpdate, PartitionLeader
from ottla.protocol.errors import ErrorCode, KafkaError

MIN_ISR = 2
LAG_TIME_MAX_MS = 100
FETCHED_AT_ONCE = 3


class Rec(NamedTuple):
    """A record: the leader epoch it was written in, and a value that no other has."""

    epoch: int
    value: int


class FakeLog:
    """A log whose records are a list; a crash loses the unsynced tail."""

    def __init__(self) -> None:
        self.records: list[Rec] = []
        self.epochs: list[tuple[int, int]] = []
        self.synced = 0
        self.log_start_offset = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def latest_epoch(self) -> int | None:
        return self.epochs[-1][0] if self.epochs else None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch < 0 or not self.epochs or epoch > self.epochs[-1][0]:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, len(self.records)
        found, end = epoch, self.epochs[0][1]
        for (first, _), (_, start) in zip(self.epochs, self.epochs[1:], strict=False):
            if first <= epoch:
                found, end = first, start
        return found, end

    def assign_epoch(self, epoch: int, offset: int) -> None:
        if self.epochs and self.epochs[-1][0] >= epoch:
            return
        self.epochs = [each for each in self.epochs if each[1] < offset]
        self.epochs.append((epoch, offset))

    def append(self, records: Sequence[Rec]) -> None:
        for record in records:
            self.assign_epoch(record.epoch, len(self.records))
            self.records.append(record)

    def truncate(self, offset: int) -> None:
        del self.records[offset:]
        self.synced = min(self.synced, len(self.records))
        self.epochs = [each for each in self.epochs if each[1] < len(self.records)]

    def crash(self) -> None:
        """Only what was synced is left; epochs are made again from the records."""
        records, self.epochs = self.records[: self.synced], []
        self.records = []
        self.append(records)


@dataclass(frozen=True)
class State:
    """The partition as the controller has it."""

    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    isr: frozenset[int] = frozenset()
    elr: frozenset[int] = frozenset()


@dataclass
class Node:
    node_id: int
    log: FakeLog = field(default_factory=FakeLog)
    broker_epoch: int = 1
    heard: State | None = None
    leader: PartitionLeader | None = None
    follower: PartitionFollower | None = None
    asked: PartitionFollower | None = None
    """The follower whose fetch is in flight."""
    answer: tuple[FetchPosition, FetchAnswer, tuple[Rec, ...]] | None = None
    saved_high_watermark: int = 0

    @property
    def high_watermark(self) -> int:
        role = self.leader or self.follower
        return 0 if role is None else role.high_watermark


class Lost(AssertionError):
    """An acknowledged or committed record is gone, or differs."""


class ReplicatedLog:
    """The nodes and their controller; `step` lets one thing happen."""

    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0
        self.nodes = {node_id: Node(node_id) for node_id in range(1, nodes + 1)}
        self.state = State(leader=1, isr=frozenset(self.nodes))
        self.active = dict.fromkeys(self.nodes, 1)  # registered and unfenced: its epoch
        self.registered = dict(self.active)
        self.requests: list[tuple[Node, int, PartitionFollower, FetchPosition]] = []
        self.updates: list[tuple[Node, PartitionLeader, InSyncUpdate]] = []
        self.waiting: list[tuple[Node, PartitionLeader, int, Rec]] = []
        self.acknowledged: dict[int, Rec] = {}
        self.committed: dict[int, Rec] = {}
        self.next_value = 0
        for node in self.nodes.values():
            self.hear(node)

    # -- what may happen ----------------------------------------------------------------------------

    def step(self) -> None:
        """One thing happens, then everything is looked at."""
        node = self.random.choice(list(self.nodes.values()))
        action = self.random.choices(
            (self.produce, self.ask, self.arrive, self.deliver, self.hear, self.send_update,
             self.tick, self.sync, self.lose, self.fence, self.unfence, self.crash),
            weights=(30, 100, 100, 100, 40, 40, 8, 8, 5, 5, 12, 3),
        )[0]  # fmt: skip
        action(node)
        self.acknowledge()
        self.look()

    def produce(self, node: Node) -> None:
        """acks=all, to a node that believes to be the leader."""
        node = self.random.choice([each for each in self.nodes.values() if each.leader is not None] or [node])
        leader = node.leader
        if leader is None or not leader.has_enough_replicas:
            return
        self.next_value += 1
        record = Rec(leader.leader_epoch, self.next_value)
        node.log.append([record])
        leader.on_append(node.log.log_end_offset)
        self.waiting.append((node, leader, node.log.log_end_offset, record))

    def ask(self, node: Node) -> None:
        """A follower's fetch is sent; it may be a while until it reaches the leader."""
        follower = node.follower
        if follower is None or follower.leader_id < 0 or node.answer is not None or node.asked is follower:
            return
        node.asked = follower
        self.requests.append((node, node.broker_epoch, follower, follower.position()))

    def arrive(self, _: Node) -> None:
        """A fetch reaches its leader; the answer is sent, if the follower still waits for it."""
        if not self.requests:
            return
        of, broker_epoch, follower, position = self.requests.pop(self.random.randrange(len(self.requests)))
        answer, records = self.serve(self.nodes[follower.leader_id], of, broker_epoch, position)
        if of.follower is follower:
            of.asked, of.answer = None, (position, answer, records)

    def serve(
        self, at: Node, of: Node, broker_epoch: int, position: FetchPosition
    ) -> tuple[FetchAnswer, tuple[Rec, ...]]:
        leader = at.leader
        if leader is None:
            return FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER), ()
        try:
            reading.check_leader_epoch(leader.leader_epoch, position.leader_epoch)
            own = at.log.end_offset_for_epoch(position.last_fetched_epoch)
            diverging = reading.find_divergence(position.last_fetched_epoch, position.fetch_offset, own)
        except KafkaError as error:
            return FetchAnswer(error.code), ()
        if diverging is not None:
            return FetchAnswer(ErrorCode.NONE, leader.high_watermark, 0, diverging), ()
        if position.fetch_offset > at.log.log_end_offset:
            return FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE), ()
        update = leader.on_follower_fetch(of.node_id, position.fetch_offset, 0, broker_epoch, self.now_ms)
        if update is not None:
            self.updates.append((at, leader, update))
        records = tuple(at.log.records[position.fetch_offset :][:FETCHED_AT_ONCE])
        return FetchAnswer(ErrorCode.NONE, leader.high_watermark, 0, None, bytes(len(records))), records

    def deliver(self, node: Node) -> None:
        """The answer to a fetch arrives."""
        if node.answer is None or node.follower is None:
            node.answer = None
            return
        (position, answer, records), node.answer = node.answer, None
        for effect in node.follower.on_answer(position, answer):
            match effect:
                case AppendFetched():
                    if len(node.log.records) != position.fetch_offset:
                        raise Lost("records were to be appended elsewhere than at the end")
                    node.log.append(records)
                    node.follower.on_appended()
                case Truncate(offset) | StartOver(offset):
                    self.cut(node, node.follower, offset)
                case AskOffsets(asked):
                    leader = self.nodes[node.follower.leader_id]
                    if leader.leader is not None and leader.leader.leader_epoch == asked.leader_epoch:
                        end = leader.log.log_end_offset
                        for each in node.follower.on_leader_offsets(asked, 0, end):
                            assert isinstance(each, (Truncate, StartOver))
                            self.cut(node, node.follower, each.offset)
                case AdvanceLogStart():
                    raise AssertionError("no log begins elsewhere than at 0")

    @staticmethod
    def cut(node: Node, follower: PartitionFollower, offset: int) -> None:
        node.log.truncate(offset)
        node.saved_high_watermark = min(node.saved_high_watermark, len(node.log.records))
        follower.on_truncated()

    def hear(self, node: Node) -> None:
        """The node hears of the newest metadata."""
        state = self.state
        if self.registered[node.node_id] != node.broker_epoch:
            return
        before, node.heard = node.heard, state
        high_watermark = max(node.high_watermark, node.saved_high_watermark)
        if state.leader == node.node_id:
            if node.leader is not None and node.leader.leader_epoch == state.leader_epoch:
                node.leader.on_metadata(
                    partition_epoch=state.partition_epoch, isr=state.isr, replicas=self.nodes
                )
                return
            node.log.assign_epoch(state.leader_epoch, node.log.log_end_offset)
            node.follower = None
            node.leader = PartitionLeader(
                local_id=node.node_id,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                isr=state.isr,
                replicas=self.nodes,
                log_end_offset=node.log.log_end_offset,
                high_watermark=min(high_watermark, node.log.log_end_offset),
                min_insync_replicas=MIN_ISR,
                lag_time_max_ms=LAG_TIME_MAX_MS,
                eligible=self.active.get,
                now_ms=self.now_ms,
            )
        elif (
            before is None
            or node.follower is None
            or before.leader_epoch != state.leader_epoch
            or (node.follower.leader_id != state.leader)
        ):
            node.leader = node.answer = node.asked = None
            node.follower = PartitionFollower(
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                log=node.log,
                high_watermark=high_watermark,
            )

    def tick(self, node: Node) -> None:
        """Time passes."""
        self.now_ms += self.random.choice((1, 20, 60))
        if node.leader is not None:
            update = node.leader.on_tick(self.now_ms)
            if update is not None:
                self.updates.append((node, node.leader, update))

    def sync(self, node: Node) -> None:
        """The disk has everything; so has the checkpoint of the high watermark."""
        node.log.synced = node.log.log_end_offset
        node.saved_high_watermark = node.high_watermark

    def lose(self, node: Node) -> None:
        """The messages in flight to the node are lost."""
        node.answer = None

    def crash(self, node: Node) -> None:
        """The machine dies and comes back at once, without its unsynced tail."""
        left = (self.state.isr | self.state.elr) - {node.node_id}
        if not left:
            return  # the last one that has everything
        node.log.crash()
        node.leader = node.follower = node.heard = node.answer = node.asked = None
        node.saved_high_watermark = min(node.saved_high_watermark, node.log.log_end_offset)
        self.registered[node.node_id] += 1
        node.broker_epoch = self.registered[node.node_id]
        self.active.pop(node.node_id, None)
        self.change(
            replace(self.state, isr=self.state.isr - {node.node_id}, elr=self.state.elr - {node.node_id}),
            was_eligible=frozenset(),
        )

    def fence(self, node: Node) -> None:
        """The controller hears nothing of a node, which may go on all the same."""
        if node.node_id not in self.active:
            return
        del self.active[node.node_id]
        self.change(
            replace(self.state, isr=self.state.isr - {node.node_id}),
            was_eligible=self.state.isr & {node.node_id},
        )

    def unfence(self, node: Node) -> None:
        """The controller hears of it again."""
        if node.node_id in self.active:
            return
        self.active[node.node_id] = self.registered[node.node_id]
        self.change(self.state, was_eligible=frozenset())

    # -- the controller -----------------------------------------------------------------------------

    def send_update(self, _: Node) -> None:
        """An AlterPartition reaches the controller; its answer may get lost."""
        if not self.updates:
            return
        node, leader, update = self.updates.pop(self.random.randrange(len(self.updates)))
        if leader is not node.leader:
            return
        code = self.judge(node, update)
        if code is ErrorCode.NONE:
            isr = frozenset(member.node_id for member in update.isr)
            self.change(replace(self.state, isr=isr), was_eligible=self.state.isr - isr)
        fate = self.random.random()
        if fate < 0.2:
            self.updates.append((node, leader, update))  # the answer is lost: asked again
        elif code is not ErrorCode.NONE:
            if leader.on_update_refused(update, code):
                self.updates.append((node, leader, update))
        else:
            leader.on_update_answered(
                update,
                leader_epoch=self.state.leader_epoch,
                partition_epoch=self.state.partition_epoch,
                isr=self.state.isr,
            )

    def judge(self, node: Node, update: InSyncUpdate) -> ErrorCode:
        if self.active.get(node.node_id) != node.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if node.node_id != self.state.leader or update.leader_epoch != self.state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if update.partition_epoch != self.state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member in update.isr:
            if member.node_id not in self.active or (
                member.broker_epoch not in (-1, self.active[member.node_id])
            ):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    def change(self, wanted: State, was_eligible: frozenset[int]) -> None:
        """The partition's new state: the eligible replicas, and the leader."""
        elr = frozenset() if len(wanted.isr) >= MIN_ISR else (wanted.elr | was_eligible) - wanted.isr
        isr, leader = wanted.isr, wanted.leader
        if leader not in isr or leader not in self.active:
            choice = sorted(isr & self.active.keys()) or sorted(elr & self.active.keys())
            leader = self.random.choice(choice) if choice else -1
            if leader >= 0:
                isr, elr = isr | {leader}, elr - {leader}
        epoch = self.state.leader_epoch + (leader != self.state.leader)
        changed = State(leader, epoch, self.state.partition_epoch, isr, elr)
        if changed != self.state:
            self.state = replace(changed, partition_epoch=self.state.partition_epoch + 1)

    # -- what must hold -----------------------------------------------------------------------------

    def acknowledge(self) -> None:
        """Producers get acknowledgements for the committed records."""
        still = []
        for node, leader, end_offset, record in self.waiting:
            if node.leader is not leader:
                continue  # told that it leads no more
            code = leader.acknowledgement(end_offset)
            if code is None:
                still.append((node, leader, end_offset, record))
            elif code is ErrorCode.NONE:
                self.acknowledged[end_offset - 1] = record
        self.waiting = still

    def look(self) -> None:
        for node in self.nodes.values():
            if node.high_watermark > node.log.log_end_offset:
                raise Lost(f"node {node.node_id}: high watermark beyond the log's end")
            for offset in range(node.high_watermark):
                record = node.log.records[offset]
                if self.committed.setdefault(offset, record) != record:
                    raise Lost(
                        f"node {node.node_id} shows {record} at {offset}, not {self.committed[offset]}"
                    )
        for node_id in self.state.isr | self.state.elr:
            records = self.nodes[node_id].log.records
            for offset, record in self.acknowledged.items():
                if offset >= len(records) or records[offset] != record:
                    raise Lost(f"node {node_id} may lead and lacks {record} at {offset}")

    def heal(self) -> None:
        """Everything works again: in the end all replicas are in sync and the same."""
        nodes = list(self.nodes.values())
        for node in nodes:
            self.unfence(node)
            node.answer = None
        for _ in range(300):
            self.now_ms += 5
            for node in nodes:
                self.hear(node)
                self.ask(node)
                while self.requests:
                    self.arrive(node)
                self.deliver(node)
                if node.leader is not None:
                    update = node.leader.on_tick(self.now_ms)
                    if update is not None:
                        self.updates.append((node, node.leader, update))
            while self.updates:
                node, leader, update = self.updates[0]
                if node.leader is not leader or leader.update_under_way is not update:
                    self.updates.pop(0)
                else:
                    self.send_update(node)
                    self.hear(node)
            self.acknowledge()
            self.look()
            if self.is_whole():
                return
        raise Lost(f"the replicas do not agree: {self.state}, {[each.log.records for each in nodes]}")

    def is_whole(self) -> bool:
        logs = [node.log.records for node in self.nodes.values()]
        return (
            self.state.isr == frozenset(self.nodes)
            and all(records == logs[0] for records in logs)
            and all(node.high_watermark == len(logs[0]) for node in self.nodes.values())
        )


def run(seed: int, steps: int = 700) -> ReplicatedLog:
    """A history; raises AssertionError for one that must not be."""
    partition = ReplicatedLog(seed, nodes=3 + seed % 2)
    for _ in range(steps):
        partition.step()
    partition.heal()
    return partition


def failing_seeds(seeds: range) -> Iterator[int]:
    """The seeds whose histories go wrong."""
    for seed in seeds:
        try:
            run(seed)
        except (AssertionError, IndexError):
            yield seed
