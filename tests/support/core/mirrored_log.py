"""A source cluster and both replicas of its mirror, from a seed: elections, truncations, kills on both sides.

The source is a log of records that each are one (epoch, offset) for ever, with a lagging second replica that
an unclean election may choose. The mirror's leader is the product's `PartitionMirror` and `PartitionLeader`,
its follower `PartitionFollower`; the controller and the network are lists. Between any two effects of an
answer the leader may be killed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.links.mirror import (
    AdvanceLogStart,
    AppendMirrored,
    AskOffsets,
    Effect,
    LookForLeader,
    LookForTopic,
    MirrorPosition,
    PartitionMirror,
    RaiseEpoch,
    RetryLater,
    SourceAnswer,
    StartOver,
    Tell,
    Truncate,
)
from ottla.core.links.topic_state import LossKind
from ottla.core.replica import follower as following
from ottla.core.replica.follower import FetchAnswer, FetchPosition, PartitionFollower
from ottla.core.replica.leader import PartitionLeader
from ottla.core.replica.reading import EpochEnd, find_divergence
from ottla.protocol.errors import ErrorCode, KafkaError

FETCHED_AT_ONCE = 4
BROKERS = (1, 2)
PACK = 8


class Rec(NamedTuple):
    """A record: the source's leader epoch in which it was written, and a value of its own."""

    epoch: int
    value: int


class StoredLog:
    """Records by offset from `log_start_offset` on, with the epochs of a real log."""

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.records: list[Rec] = []
        self.epochs: list[tuple[int, int]] = []

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    @property
    def latest_epoch(self) -> int | None:
        return self.epochs[-1][0] if self.epochs else None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch < 0 or not self.epochs or epoch > self.epochs[-1][0]:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.log_end_offset
        found, end = epoch, self.epochs[0][1]
        for (first, _), (_, start) in zip(self.epochs, self.epochs[1:], strict=False):
            if first <= epoch:
                found, end = first, start
        return found, end

    def at(self, offset: int) -> Rec | None:
        place = offset - self.log_start_offset
        return self.records[place] if 0 <= place < len(self.records) else None

    def slice(self, offset: int, end: int) -> list[Rec]:
        return self.records[offset - self.log_start_offset : end - self.log_start_offset]

    def begin_epoch(self, epoch: int) -> None:
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs = [each for each in self.epochs if each[1] < self.log_end_offset]
            self.epochs.append((epoch, self.log_end_offset))

    def append(self, records: Sequence[Rec]) -> None:
        for record in records:
            if not self.epochs or self.epochs[-1][0] < record.epoch:
                self.epochs = [each for each in self.epochs if each[1] < self.log_end_offset]
                self.epochs.append((record.epoch, self.log_end_offset))
            self.records.append(record)

    def truncate(self, offset: int) -> None:
        del self.records[max(0, offset - self.log_start_offset) :]
        self.epochs = [each for each in self.epochs if each[1] < offset]

    def start_over(self, offset: int) -> None:
        self.records, self.epochs, self.log_start_offset = [], [], offset

    def advance(self, offset: int) -> None:
        if offset > self.log_start_offset:
            del self.records[: offset - self.log_start_offset]
            self.log_start_offset = offset
            before = [each for each in self.epochs if each[1] <= offset]
            after = [each for each in self.epochs if each[1] > offset]
            self.epochs = ([(before[-1][0], offset)] if before else []) + after


class Told(NamedTuple):
    kind: LossKind
    from_offset: int
    to_offset: int


@dataclass
class Replica:
    """A broker of the target and its log, which a kill leaves as it is."""

    log: StoredLog = field(default_factory=StoredLog)
    high_watermark: int = 0
    alive: bool = True
    leader: PartitionLeader | None = None
    follower: PartitionFollower | None = None
    mirror: PartitionMirror | None = None
    sent: tuple[MirrorPosition, SourceAnswer] | None = None
    effects: list[Effect] = field(default_factory=list)


class World:
    """One run. `problems` are broken promises."""

    def __init__(self, seed: int, *, truncate_untold: bool = False, may_recreate: bool = False) -> None:
        self.dice = random.Random(seed)
        self.problems: list[str] = []
        self.may_recreate = may_recreate
        self.truncate_untold = truncate_untold
        # The source.
        self.source = StoredLog()
        self.lagging = StoredLog()
        self.source_epoch = self.dice.randrange(3)
        self.source.begin_epoch(self.source_epoch)
        self.source_high_watermark = 0
        self.topic_id = "first"
        self.values = 0
        self.history: dict[tuple[int, int], int] = {}
        # The target's metadata.
        self.leader_id, self.leader_epoch = 1, 0
        self.told: list[Told] = []
        self.replicas = {node: Replica() for node in BROKERS}
        self.seen: dict[tuple[int, Rec], None] = {}
        self._take_roles()

    # -- the source -------------------------------------------------------------------------------------

    def produce(self) -> None:
        for _ in range(self.dice.randrange(1, 6)):
            self.values += 1
            record = Rec(self.source_epoch, self.values)
            if self.topic_id == "first":
                self.history[self.source.log_end_offset, record.epoch] = record.value
            self.source.append([record])
        self.source_high_watermark = self.dice.randrange(
            self.source_high_watermark, self.source.log_end_offset + 1
        )

    def replicate(self) -> None:
        """The lagging replica follows some of the way."""
        shared = self._shared_end()
        nothing_shared = shared <= self.source.log_start_offset and self.lagging.log_start_offset < shared
        if nothing_shared or self.lagging.log_start_offset > self.source.log_end_offset:
            self.lagging.start_over(self.source.log_start_offset)
        self.lagging.truncate(shared)
        self.lagging.advance(self.source.log_start_offset)
        end = self.dice.randrange(self.lagging.log_end_offset, self.source.log_end_offset + 1)
        self.lagging.append(self.source.slice(self.lagging.log_end_offset, end))

    def _shared_end(self) -> int:
        offset = max(self.source.log_start_offset, self.lagging.log_start_offset)
        while self.lagging.at(offset) is not None and self.lagging.at(offset) == self.source.at(offset):
            offset += 1
        return offset

    def elect(self) -> None:
        """A new leader of the source; uncleanly half of the time."""
        if self.dice.random() < 0.5:
            self.source, self.lagging = self.lagging, self.source
        self.source_epoch += self.dice.randrange(1, 4)
        self.source.begin_epoch(self.source_epoch)
        self.source_high_watermark = min(self.source_high_watermark, self.source.log_end_offset)

    def retain(self) -> None:
        self.source.advance(self.dice.randrange(self.source.log_start_offset, self.source_high_watermark + 1)
                            if self.source_high_watermark > self.source.log_start_offset
                            else self.source.log_start_offset)  # fmt: skip

    def recreate(self) -> None:
        if self.may_recreate and self.topic_id == "first" and self.dice.random() < 0.2:
            self.topic_id = "second"
            self.source, self.lagging, self.source_epoch, self.source_high_watermark = (
                StoredLog(), StoredLog(), 0, 0,
            )  # fmt: skip
            self.source.begin_epoch(0)

    def serve(self, asked: MirrorPosition) -> SourceAnswer:
        """What the source's leader answers a consumer's fetch, as Kafka does."""
        log = self.source
        if self.topic_id != "first":
            return SourceAnswer(ErrorCode.UNKNOWN_TOPIC_ID)
        offset = asked.fetch_offset
        try:
            if offset < log.log_start_offset:
                return SourceAnswer(ErrorCode.OFFSET_OUT_OF_RANGE)
            diverging = None
            if asked.last_fetched_epoch >= 0:
                own = log.end_offset_for_epoch(asked.last_fetched_epoch)
                diverging = find_divergence(asked.last_fetched_epoch, offset, own)
            if diverging is not None:
                return SourceAnswer(ErrorCode.NONE, diverging=diverging)
            if offset > log.log_end_offset:
                return SourceAnswer(ErrorCode.OFFSET_OUT_OF_RANGE)
        except KafkaError as error:
            return SourceAnswer(error.code)
        end = min(self.source_high_watermark, offset + self.dice.randrange(1, FETCHED_AT_ONCE + 1))
        records = log.slice(offset, end) if end > offset else []
        return SourceAnswer(
            ErrorCode.NONE, self.source_high_watermark, log.log_start_offset, None, packed(records)
        )

    # -- the target's leader ------------------------------------------------------------------------------

    def fetch(self) -> None:
        replica = self.replicas[self.leader_id]
        if replica.alive and replica.mirror is not None and replica.sent is None and not replica.effects:
            position = replica.mirror.position()
            replica.sent = position, self.serve(position)

    def deliver(self) -> None:
        replica = self.replicas[self.leader_id]
        if not replica.alive or replica.mirror is None or replica.sent is None:
            return
        (asked, answer), replica.sent = replica.sent, None
        replica.effects = list(replica.mirror.on_answer(asked, answer))

    def perform(self) -> None:
        """One effect; what follows may never come."""
        replica = self.replicas[self.leader_id]
        if not replica.alive or not replica.effects or replica.mirror is None or replica.leader is None:
            return
        effect = replica.effects.pop(0)
        log, mirror = replica.log, replica.mirror
        match effect:
            case AppendMirrored(records, _):
                found = unpacked(records)
                count = mirror.appendable([each.epoch for each in found])
                log.append(found[:count])
                replica.leader.on_append(log.log_end_offset)
                if count < len(found):
                    replica.effects = [RaiseEpoch(found[count].epoch)]
            case RaiseEpoch(epoch):
                self.leader_epoch = max(self.leader_epoch, epoch)
                self._take_roles()
            case Tell(kind, start, end):
                if not self.truncate_untold:
                    self.told.append(Told(kind, start, end))
                if kind.ends_mirroring:
                    replica.mirror, replica.effects = None, []
            case Truncate(offset):
                log.truncate(offset)
                replica.leader.on_mirror_cut(log.log_end_offset)
            case StartOver(offset):
                log.start_over(offset)
                replica.leader.on_mirror_cut(log.log_end_offset)
            case AdvanceLogStart(offset):
                log.advance(min(offset, replica.leader.high_watermark))
            case AskOffsets(position):
                start, end = self.source.log_start_offset, self.source_high_watermark
                replica.effects = list(mirror.on_source_offsets(position, start, max(start, end)))
            case LookForTopic():
                replica.effects = list(mirror.on_source_topic("first", self.topic_id))
            case LookForLeader() | RetryLater():
                replica.effects = []
        replica.high_watermark = replica.leader.high_watermark if replica.leader is not None else 0

    # -- the target's follower and controller --------------------------------------------------------------

    def follow(self) -> None:
        other = next(node for node in BROKERS if node != self.leader_id)
        follower, leader = self.replicas[other], self.replicas[self.leader_id]
        if not follower.alive or not leader.alive or follower.follower is None or leader.leader is None:
            return
        asked = follower.follower.position()
        for effect in follower.follower.on_answer(asked, self._serve_follower(other, asked)):
            match effect:
                case following.AppendFetched(records):
                    follower.log.append(unpacked(records))
                    follower.follower.on_appended()
                case following.Truncate(offset):
                    follower.log.truncate(offset)
                    follower.follower.on_truncated()
                case following.StartOver(offset):
                    follower.log.start_over(offset)
                    follower.follower.on_truncated()
                case following.AdvanceLogStart(offset):
                    follower.log.advance(min(offset, follower.log.log_end_offset))
                case following.AskOffsets(position):
                    log = leader.log
                    for further in follower.follower.on_leader_offsets(
                        position, log.log_start_offset, log.log_end_offset
                    ):
                        if isinstance(further, following.Truncate):
                            follower.log.truncate(further.offset)
                        elif isinstance(further, following.StartOver):
                            follower.log.start_over(further.offset)
                        follower.follower.on_truncated()
        follower.high_watermark = follower.follower.high_watermark

    def _serve_follower(self, node: int, asked: FetchPosition) -> FetchAnswer:
        leader = self.replicas[self.leader_id]
        assert leader.leader is not None
        log, offset = leader.log, asked.fetch_offset
        if asked.leader_epoch != leader.leader.leader_epoch:
            return FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH)
        if offset < log.log_start_offset:
            return FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            diverging = None
            if asked.last_fetched_epoch >= 0:
                epoch = asked.last_fetched_epoch
                diverging = find_divergence(epoch, offset, log.end_offset_for_epoch(epoch))
            if diverging is not None:
                return FetchAnswer(ErrorCode.NONE, diverging=EpochEnd(*diverging))
            if offset > log.log_end_offset:
                return FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE)
        except KafkaError as error:
            return FetchAnswer(error.code)
        leader.leader.on_follower_fetch(node, offset, asked.log_start_offset, -1, 0)
        leader.high_watermark = leader.leader.high_watermark
        records = log.slice(offset, offset + FETCHED_AT_ONCE)
        return FetchAnswer(
            ErrorCode.NONE, leader.leader.high_watermark, log.log_start_offset, None, packed(records)
        )

    def kill(self) -> None:
        """A broker dies with what it was about to do; the other one leads, if it lives."""
        node = self.dice.choice(BROKERS)
        replica = self.replicas[node]
        replica.alive = False
        replica.leader = replica.follower = replica.mirror = replica.sent = None
        replica.effects = []
        other = next(each for each in BROKERS if each != node)
        if self.replicas[other].alive and self.leader_id == node:
            self.leader_id = other
            self.leader_epoch += 1
            self._take_roles()

    def restart(self) -> None:
        for node, replica in self.replicas.items():
            if not replica.alive:
                replica.alive = True
                if self.leader_id == node:
                    self.leader_epoch += 1
                self._take_roles()
                return

    def _take_roles(self) -> None:
        for node, replica in self.replicas.items():
            if not replica.alive:
                continue
            marked = min(replica.high_watermark, replica.log.log_end_offset)
            replica.sent, replica.effects = None, []
            if node == self.leader_id:
                replica.follower = None
                replica.leader = PartitionLeader(
                    local_id=node,
                    leader_epoch=self.leader_epoch,
                    isr=BROKERS,
                    log_end_offset=replica.log.log_end_offset,
                    high_watermark=marked,
                    replicas=BROKERS,
                )
                failed = any(each.kind.ends_mirroring for each in self.told)
                replica.mirror = (
                    None if failed else PartitionMirror(leader_epoch=self.leader_epoch, log=replica.log)
                )
            else:
                replica.leader = replica.mirror = None
                replica.follower = PartitionFollower(
                    leader_id=self.leader_id,
                    leader_epoch=self.leader_epoch,
                    log=replica.log,
                    high_watermark=marked,
                )

    # -- a run --------------------------------------------------------------------------------------------

    def step(self) -> None:
        steps: list[tuple[Callable[[], None], int]] = [
            (self.produce, 8), (self.replicate, 3), (self.elect, 2), (self.retain, 1), (self.recreate, 1),
            (self.fetch, 12), (self.deliver, 12), (self.perform, 16), (self.follow, 16),
            (self.kill, 1), (self.restart, 3),
        ]  # fmt: skip
        self.dice.choices([each for each, _ in steps], [weight for _, weight in steps])[0]()
        self.look(whole=self.dice.random() < 0.02)

    def look(self, *, whole: bool = False) -> None:
        """Whatever happens, the mirror has only what the source wrote, where and when it wrote it."""
        for node, replica in self.replicas.items():
            log = replica.log
            last = -1
            first = 0 if whole else max(0, len(log.records) - 2 * FETCHED_AT_ONCE)
            for place, record in enumerate(log.records[first:], first):
                offset = log.log_start_offset + place
                if self.history.get((offset, record.epoch)) != record.value:
                    self.problems.append(
                        f"broker {node} has {record} at {offset}, which the source never had"
                    )
                if record.epoch < last:
                    self.problems.append(f"epochs of broker {node} go back at {offset}")
                last = record.epoch
            if replica.leader is not None:
                end = min(replica.leader.high_watermark, log.log_end_offset)
                for offset in range(max(log.log_start_offset, end - 3 * FETCHED_AT_ONCE), end):
                    record_here = log.at(offset)
                    assert record_here is not None
                    self.seen[offset, record_here] = None

    def heal(self) -> None:
        """Nothing goes wrong any more, and nothing new is produced."""
        self.source_high_watermark = self.source.log_end_offset
        for _ in range(2):
            self.restart()
        for _ in range(40 + 2 * len(self.source.records)):
            for act in (
                self.fetch,
                self.deliver,
                self.perform,
                self.perform,
                self.perform,
                self.follow,
                self.follow,
            ):
                act()
                self.look()
        self.look(whole=True)
        leader = self.replicas[self.leader_id]
        failed = [each for each in self.told if each.kind.ends_mirroring]
        if self.topic_id != "first":
            if not failed:
                self.problems.append(f"the source was made again, told is {failed}")
            return
        if failed:
            # A source whose log was cut to nothing has no epochs to compare with: told, and no further.
            if any(each.kind is not LossKind.LOST for each in failed):
                self.problems.append(f"failed without a reason: {failed}")
            return
        for node, replica in self.replicas.items():
            wanted = self.source.slice(replica.log.log_start_offset, self.source.log_end_offset)
            if replica.log.log_start_offset < self.source.log_start_offset or replica.log.records != wanted:
                self.problems.append(f"broker {node} did not become the source's log")
        for offset, record in self.seen:
            if leader.log.at(offset) != record and offset >= leader.log.log_start_offset:
                told = any(
                    each.kind in (LossKind.TRUNCATED, LossKind.GAP)
                    and min(each.from_offset, each.to_offset) <= offset
                    and (each.kind is LossKind.GAP or offset < each.from_offset)
                    for each in self.told
                )
                if not told:
                    self.problems.append(f"{record} at {offset} was seen and is gone, and nobody was told")


def packed(records: Sequence[Rec]) -> bytes:
    return b"".join(each.epoch.to_bytes(PACK, "big") + each.value.to_bytes(PACK, "big") for each in records)


def unpacked(data: bytes | bytearray | memoryview) -> list[Rec]:
    whole = bytes(data)
    return [
        Rec(
            int.from_bytes(whole[place : place + PACK], "big"),
            int.from_bytes(whole[place + PACK : place + 2 * PACK], "big"),
        )
        for place in range(0, len(whole), 2 * PACK)
    ]


def run(seed: int, steps: int = 400, *, truncate_untold: bool = False, may_recreate: bool = False) -> World:
    """A run of a seed, healed at its end."""
    world = World(seed, truncate_untold=truncate_untold, may_recreate=may_recreate)
    for _ in range(steps):
        world.step()
    world.heal()
    return world
