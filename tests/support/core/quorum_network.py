"""A quorum of simulated nodes: a seed decides on time, network, disks and faults; a checker sees each step.

The nodes run the real `Quorum`. Their logs tell synced from unsynced entries: a crash loses unsynced entries,
and may bring back entries whose cut was not synced. `Checker` has the rules that must never be broken.
"""

from __future__ import annotations

import heapq
import itertools
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from ottla.core.quorum.api import (
    Address,
    AppendControls,
    AppendFetched,
    AppendSnapshot,
    Became,
    BeginSnapshot,
    Commit,
    Effect,
    ElectionState,
    InstallSnapshot,
    ListenerEndpoint,
    QuorumSettings,
    ReplicaKey,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    Report,
    Role,
    SaveElection,
    Send,
    SnapshotId,
    Truncate,
    Voter,
    VoterSet,
)
from ottla.core.quorum.control_records import LogControl, voter_set
from ottla.core.quorum.quorum import Quorum
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter_request import Listener as AddedListener
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.protocol.messages.vote_response import VoteResponse
from ottla.protocol.record_batch import ControlRecordType
from ottla.protocol.records.kraft_version_record import KRaftVersionRecord
from ottla.protocol.records.voters_record import VotersRecord
from ottla.protocol.schema import ZERO_UUID, Message

CLUSTER = "quorum-of-a-test"
SETTINGS = QuorumSettings(
    election_timeout_ms=200,
    fetch_timeout_ms=400,
    election_backoff_max_ms=200,
    request_timeout_ms=400,
    fetch_max_wait_ms=100,
    snapshot_fetch_max_bytes=200,
)


class Violation(AssertionError):
    """A rule was broken."""


class Entry(NamedTuple):
    """A record of the simulated log; a control record has its type."""

    epoch: int
    value: Any
    control: ControlRecordType | None = None


@dataclass
class SimulatedLog:
    """A log of entries, synced up to some point, that begins after a snapshot."""

    entries: list[Entry] = field(default_factory=list)
    start_offset: int = 0
    snapshots: dict[SnapshotId, list[Entry]] = field(default_factory=dict)
    durable: list[Entry] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        if self.entries:
            return self.entries[-1].epoch
        snapshot = self.latest_snapshot
        return snapshot.epoch if snapshot is not None else 0

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return min(self.snapshots, default=None)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        found = (-1, -1)
        for offset, entry in enumerate(self.entries, self.start_offset):
            if entry.epoch > epoch:
                break
            found = (entry.epoch, offset + 1)
        return found

    def read(self, offset: int, count: int) -> list[Entry]:
        first = offset - self.start_offset
        return self.entries[first : first + count]

    def truncate(self, offset: int) -> None:
        del self.entries[offset - self.start_offset :]

    def everything(self) -> list[Entry]:
        """All entries from offset 0 on, those of the latest snapshot first."""
        before: list[Entry] = []
        snapshot = self.latest_snapshot
        if snapshot is not None:
            before = self.snapshots[snapshot][: self.start_offset]
        return before + self.entries

    def crash(self, dice: random.Random) -> None:
        """Lose the unsynced entries, or some of them."""
        kept = list(self.durable)
        if self.entries[: len(kept)] == kept:
            kept += self.entries[len(kept) : len(kept) + dice.randint(0, len(self.entries) - len(kept))]
        self.entries = kept
        self.durable = list(kept)


def controls_in(entries: list[Entry], first_offset: int) -> list[LogControl]:
    """The voters and kraft.version records among entries."""
    found: list[LogControl] = []
    for offset, entry in enumerate(entries, first_offset):
        if entry.control is ControlRecordType.KRAFT_VOTERS:
            found.append(LogControl(offset, voter_set(VotersRecord.decode(entry.value, 0))))
        elif entry.control is ControlRecordType.KRAFT_VERSION:
            found.append(LogControl(offset, KRaftVersionRecord.decode(entry.value, 0).kraft_version))
    return found


class Checker:
    """The rules that must hold over the life of the whole quorum."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[ReplicaKey, int], int] = {}
        self.committed: dict[int, Entry] = {}
        self.written: dict[tuple[int, int], tuple[Entry, int]] = {}
        self.high_watermarks: dict[int, int] = {}

    def led(self, node: SimulatedNode, epoch: int) -> None:
        """One leader an epoch, with all committed entries."""
        if self.leaders.setdefault(epoch, node.node_id) != node.node_id:
            raise Violation(f"epoch {epoch} has two leaders: {self.leaders[epoch]} and {node.node_id}")
        everything = node.log.everything()
        for offset, entry in self.committed.items():
            if offset >= len(everything) or everything[offset] != entry:
                raise Violation(f"leader {node.node_id} of epoch {epoch} lacks committed offset {offset}")

    def voted(self, voter: ReplicaKey, epoch: int, candidate: int) -> None:
        """One vote an epoch, over crashes too."""
        if self.votes.setdefault((voter, epoch), candidate) != candidate:
            raise Violation(f"node {voter.node_id} voted twice in epoch {epoch}")

    def appended(self, log: SimulatedLog, first_offset: int) -> None:
        """An epoch and offset name one entry, and all entries before it."""
        everything = log.everything()
        for offset in range(first_offset, log.end_offset):
            entry = everything[offset]
            before = everything[offset - 1].epoch if offset else 0
            if self.written.setdefault((offset, entry.epoch), (entry, before)) != (entry, before):
                raise Violation(f"two entries at offset {offset} of epoch {entry.epoch}")

    def commits(self, node: SimulatedNode, high_watermark: int) -> None:
        """Committed entries are the same everywhere, for ever."""
        before = self.high_watermarks.get(node.node_id, 0)
        if high_watermark < before:
            raise Violation(
                f"the high watermark of node {node.node_id} went from {before} to {high_watermark}"
            )
        everything = node.log.everything()
        if high_watermark > len(everything):
            raise Violation(f"node {node.node_id} commits {high_watermark} of {len(everything)} entries")
        for offset in range(before, high_watermark):
            if self.committed.setdefault(offset, everything[offset]) != everything[offset]:
                raise Violation(f"node {node.node_id} commits another entry at offset {offset}")
        self.high_watermarks[node.node_id] = high_watermark

    def changes_voters(self, node: SimulatedNode, offset: int) -> None:
        """One voter at a time, the last change committed before."""
        everything = node.log.everything()
        voters = [
            (at, {each.key for each in control.value.voters})
            for at, control in ((each.offset, each) for each in controls_in(everything, 0))
            if isinstance(control.value, VoterSet)
        ]
        if len(voters) < 2 or voters[-1][0] != offset:
            return
        if voters[-2][0] not in self.committed:
            raise Violation(f"voters change at {offset} while those at {voters[-2][0]} are not committed")
        if len(voters[-1][1] ^ voters[-2][1]) > 1:
            raise Violation(f"more than one voter changes at offset {offset}")


class SimulatedNode:
    """A node with its disk; `quorum` is None while it is down."""

    def __init__(self, network: Network, node_id: int, controls: list[LogControl]) -> None:
        self.network = network
        self.node_id = node_id
        self.key = ReplicaKey(node_id, UUID(int=100 + node_id))
        self.listeners = (ListenerEndpoint("CONTROLLER", f"node-{node_id}", 9093),)
        self.formatted = controls
        self.log = SimulatedLog()
        self.election = ElectionState()
        self.quorum: Quorum | None = None
        self.life = 0
        self.flushing = False
        self.alarm_ms: int | None = None
        self.rang_ms = -1
        self.restless = 0
        self.piece = b""
        self.settings = network.settings
        self.static_voters: VoterSet | None = None
        self.reports: list[Report] = []

    @property
    def voter(self) -> Voter:
        return Voter(self.key, self.listeners)

    def below(self, limit: int) -> int:
        return self.network.dice.randrange(limit)

    # -- life and death -------------------------------------------------------------------------------

    def start(self) -> None:
        self.life += 1
        self.flushing = False
        self.alarm_ms = None
        self.log.durable = list(self.log.entries)
        controls = list(self.formatted)
        snapshot = self.log.latest_snapshot
        before = self.log.snapshots[snapshot] if snapshot is not None else []
        if snapshot is not None:
            at = snapshot.end_offset - 1
            controls += [replace_offset(each, at) for each in controls_in(before, 0)]
        tail_from = snapshot.end_offset if snapshot is not None else 0
        tail = self.log.entries[tail_from - self.log.start_offset :]
        controls += controls_in(tail, tail_from)
        self.network.checker.high_watermarks.pop(self.node_id, None)
        self.quorum = Quorum(
            self.settings,
            CLUSTER,
            self.key,
            self.listeners if self.settings.may_vote else (),
            self.static_voters,
            controls,
            self.election,
            self.log,
            self,
        )
        self.run(lambda quorum, now: quorum.start(now))

    def crash(self) -> None:
        self.quorum = None
        self.life += 1
        self.log.crash(self.network.dice)

    # -- events and effects ---------------------------------------------------------------------------

    def run(self, event: Callable[[Quorum, int], list[Effect]]) -> None:
        """Feed one event, perform its effects, see to its wake-up."""
        if self.quorum is None:
            return
        for effect in event(self.quorum, self.network.now_ms):
            self.perform(effect)
        self.see_to_wake()

    def see_to_wake(self) -> None:
        """One alarm is set, for the next thing that is due."""
        wake_ms = self.quorum.next_wake_ms() if self.quorum is not None else None
        if wake_ms is None or (self.alarm_ms is not None and self.alarm_ms <= wake_ms):
            return
        alarm_ms = self.alarm_ms = max(wake_ms, self.network.now_ms)
        life = self.life

        def ring() -> None:
            if life != self.life or self.alarm_ms != alarm_ms or self.quorum is None:
                return
            self.alarm_ms = None
            wake_ms = self.quorum.next_wake_ms()
            if wake_ms is not None and wake_ms <= self.network.now_ms:
                self.restless = self.restless + 1 if self.rang_ms == self.network.now_ms else 0
                self.rang_ms = self.network.now_ms
                if self.restless > 10:
                    raise Violation(f"node {self.node_id} finds no rest")
                self.run(lambda quorum, now: quorum.on_time(now))
            else:
                self.see_to_wake()

        self.network.at(alarm_ms, ring)

    def mine(self, event: Callable[[Quorum, int], list[Effect]]) -> Callable[[], None]:
        """The event, unless the node has died meanwhile."""
        life = self.life

        def run() -> None:
            if life == self.life:
                self.run(event)

        return run

    def perform(self, effect: Effect) -> None:
        network, checker = self.network, self.network.checker
        match effect:
            case SaveElection(state):
                if state.epoch < self.election.epoch:
                    raise Violation(f"node {self.node_id} goes back to epoch {state.epoch}")
                self.election = state
            case Send():
                network.request(self, effect)
            case Reply(token, response):
                network.reply(self, token, response)
            case ReplyRecords(token, response, fetch_offset, max_bytes):
                count = min(network.dice.choice((1, 1, 2, 10)), max_bytes)
                partition: Any = response.responses[0].partitions[0]  # type: ignore[attr-defined]
                partition.records = pickle.dumps(self.log.read(fetch_offset, count))
                network.reply(self, token, response)
            case ReplySnapshot():
                self.reply_snapshot(effect)
            case AppendControls(epoch, records):
                self.append([Entry(epoch, value, kind) for kind, value in records])
                network.soon(self.mine(lambda quorum, now: quorum.on_leader_appended(now)))
            case AppendFetched(records, _):
                entries: list[Entry] = pickle.loads(bytes(records))
                first = self.append(entries)
                controls = controls_in(entries, first)
                network.at(
                    network.now_ms, self.mine(lambda quorum, now: quorum.on_appended(now, controls)), 0
                )
            case Truncate(offset):
                if offset < checker.high_watermarks.get(self.node_id, 0):
                    raise Violation(f"node {self.node_id} cuts committed offset {offset}")
                self.log.truncate(offset)
            case Commit(high_watermark):
                checker.commits(self, high_watermark)
            case Became(role, epoch, _):
                if role is Role.LEADER:
                    checker.led(self, epoch)
            case BeginSnapshot():
                self.piece = b""
            case AppendSnapshot(_, data):
                self.piece += bytes(data)
            case InstallSnapshot(snapshot):
                delay = network.dice.randint(1, 60)
                network.after(delay, self.install(snapshot, pickle.loads(self.piece)))
            case Report():
                self.reports.append(effect)

    def append(self, entries: list[Entry]) -> int:
        first = self.log.end_offset
        self.log.entries += entries
        self.network.checker.appended(self.log, first)
        for offset, entry in enumerate(entries, first):
            if entry.control is ControlRecordType.KRAFT_VOTERS and self.leads:
                self.network.checker.changes_voters(self, offset)
        self.flush()
        return first

    @property
    def leads(self) -> bool:
        return self.quorum is not None and self.quorum.role is Role.LEADER

    def flush(self) -> None:
        """One sync at a time; it takes a while and makes the entries durable that were there at its start."""
        if self.flushing:
            return
        self.flushing = True
        life, entries, end_offset = self.life, list(self.log.entries), self.log.end_offset
        start_offset = self.log.start_offset

        def done() -> None:
            if life != self.life:
                return
            self.flushing = False
            self.log.durable = entries[max(self.log.start_offset - start_offset, 0) :]
            self.run(lambda quorum, now: quorum.on_flushed(now, end_offset))
            if self.log.end_offset > end_offset:
                self.flush()

        self.network.after(self.network.dice.choice((0, 1, 3, 15, 40)), done)

    def propose(self, value: Any) -> bool:
        """A controller's record, if this node leads."""
        if not self.leads or self.quorum is None:
            return False
        self.append([Entry(self.quorum.epoch, value)])
        self.run(lambda quorum, now: quorum.on_leader_appended(now))
        return True

    # -- snapshots ------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write a snapshot of the committed entries, and cut the log before it."""
        if self.quorum is None:
            return
        end = min(self.quorum.high_watermark, len(self.log.durable) + self.log.start_offset)
        if end <= self.log.start_offset:
            return
        everything = self.log.everything()[:end]
        self.log.snapshots = {SnapshotId(end, everything[-1].epoch): everything}
        cut = end - self.log.start_offset
        del self.log.entries[:cut]
        del self.log.durable[:cut]
        self.log.start_offset = end
        self.run(lambda quorum, now: quorum.on_snapshot_written(now))

    def reply_snapshot(self, effect: ReplySnapshot) -> None:
        partition: Any = effect.response.topics[0].partitions[0]  # type: ignore[attr-defined]
        entries = self.log.snapshots.get(effect.snapshot)
        data = b"" if entries is None else pickle.dumps(entries)
        if entries is None:
            partition.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        elif effect.position >= len(data):
            partition.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            partition.size = len(data)
            partition.unaligned_records = data[effect.position : effect.position + effect.max_bytes]
        self.network.reply(self, effect.token, effect.response)

    def install(self, snapshot: SnapshotId, entries: list[Entry]) -> Callable[[], None]:
        life = self.life

        def done() -> None:
            if life != self.life:
                return
            if self.leads:
                raise Violation(f"leader {self.node_id} installs a snapshot")
            self.log.snapshots = {snapshot: entries}
            self.log.start_offset = snapshot.end_offset
            self.log.entries, self.log.durable = [], []
            at = snapshot.end_offset - 1
            controls = [replace_offset(each, at) for each in controls_in(entries, 0)]
            self.run(lambda quorum, now: quorum.on_snapshot_installed(now, snapshot, controls))

        return done


def replace_offset(control: LogControl, offset: int) -> LogControl:
    return LogControl(offset, control.value)


@dataclass
class Faults:
    """Chances, of 1000, for a message; and which nodes reach each other."""

    lost: int = 0
    doubled: int = 0
    late: int = 0
    cut: set[tuple[int, int]] = field(default_factory=set)


class Network:
    """Nodes, time, and the messages in flight between them."""

    def __init__(
        self,
        seed: int,
        voters: int = 3,
        observers: int = 0,
        *,
        settings: QuorumSettings = SETTINGS,
        static: bool = False,
        wire: bool = False,
    ) -> None:
        self.dice = random.Random(seed)
        self.settings = settings
        self.wire = wire
        self.now_ms = 1000
        self.faults = Faults()
        self.checker = Checker()
        self._queue: list[tuple[int, int, int, Callable[[], None]]] = []
        self._ids = itertools.count(1)
        self._answers: dict[int, tuple[int, SimulatedNode, int, int]] = {}
        self.admin: dict[int, Message] = {}
        self.nodes = {node_id: SimulatedNode(self, node_id, []) for node_id in range(voters + observers)}
        first = VoterSet(tuple(self.nodes[node_id].voter for node_id in range(voters)))
        unknown = VoterSet(
            tuple(replace(each, key=ReplicaKey(each.key.node_id, ZERO_UUID)) for each in first.voters)
        )
        bootstrap = tuple(Address(f"node-{node_id}", 9093) for node_id in range(voters))
        for node in self.nodes.values():
            node.settings = replace(settings, bootstrap_servers=bootstrap)
            if static:
                node.static_voters = unknown
            elif node.node_id < voters:
                node.formatted = [LogControl(-1, 1), LogControl(-1, first)]
            node.start()

    # -- time -----------------------------------------------------------------------------------------

    def at(self, time_ms: int, action: Callable[[], None], order: int = 1) -> None:
        heapq.heappush(self._queue, (max(time_ms, self.now_ms), order, next(self._ids), action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, action)

    def soon(self, action: Callable[[], None]) -> None:
        self.at(self.now_ms, action)

    def run_for(self, duration_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; whether `until` came true."""
        end_ms = self.now_ms + duration_ms
        for _ in range(200_000):
            if until():
                return True
            if not self._queue or self._queue[0][0] > end_ms:
                self.now_ms = end_ms
                return until()
            self.now_ms, _, _, action = heapq.heappop(self._queue)
            action()
        raise Violation("the nodes are busy without end")

    # -- messages -------------------------------------------------------------------------------------

    def node_at(self, address: Address) -> SimulatedNode:
        return self.nodes[int(address.host.removeprefix("node-"))]

    def latency(self) -> int:
        if self.dice.randrange(1000) < self.faults.late:
            return self.dice.randint(50, 900)
        return self.dice.randint(1, 8)

    def arrives(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self.faults.cut and self.dice.randrange(1000) >= self.faults.lost

    def request(self, sender: SimulatedNode, send: Send) -> None:
        receiver = self.node_at(send.to)
        life = sender.life

        def unanswered() -> None:
            if sender.life == life:
                sender.run(lambda quorum, now: quorum.on_response(now, send.request_id, None))

        if receiver.quorum is None and self.dice.randrange(2):
            self.after(self.latency(), unanswered)  # refused
            return
        self.after(send.timeout_ms, unanswered)
        copies = 2 if self.dice.randrange(1000) < self.faults.doubled else 1
        for _ in range(copies):
            token = next(self._ids)
            self._answers[token] = (receiver.life, sender, life, send.request_id)
            request = self.roundtrip(send.request)
            if self.arrives(sender.node_id, receiver.node_id):
                self.after(self.latency(), self.delivery(sender, receiver, token, request))

    def delivery(
        self, sender: SimulatedNode, receiver: SimulatedNode, token: int, request: Message
    ) -> Callable[[], None]:
        def deliver() -> None:
            if receiver.quorum is None:
                return
            _, sent_by, life, request_id = self._answers[token]
            self._answers[token] = (receiver.life, sent_by, life, request_id)
            if isinstance(request, ApiVersionsRequest):
                feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
                self.reply(receiver, token, ApiVersionsResponse(supported_features=[feature]))
                return
            self.note_vote_request(token, request)
            version = request.MAX_VERSION
            receiver.run(lambda quorum, now: quorum.on_request(now, token, request, version))

        return deliver

    def note_vote_request(self, token: int, request: Message) -> None:
        if isinstance(request, VoteRequest) and not request.topics[0].partitions[0].pre_vote:
            asked = request.topics[0].partitions[0]
            self._candidates[token] = (asked.replica_epoch, asked.replica_id)

    @property
    def _candidates(self) -> dict[int, tuple[int, int]]:
        return self.__dict__.setdefault("candidates", {})

    def reply(self, replier: SimulatedNode, token: int, response: Message) -> None:
        if token not in self._answers:
            self.admin[token] = response
            return
        _, receiver, life, request_id = self._answers.pop(token)
        candidate = self._candidates.pop(token, None)
        granted = (
            isinstance(response, VoteResponse)
            and bool(response.topics)
            and response.topics[0].partitions[0].vote_granted
        )
        if candidate is not None and granted:
            self.checker.voted(replier.key, *candidate)
        response = self.roundtrip(response)

        def deliver() -> None:
            if receiver.life == life:
                receiver.run(lambda quorum, now: quorum.on_response(now, request_id, response))

        if self.arrives(replier.node_id, receiver.node_id):
            self.after(self.latency(), deliver)

    def roundtrip(self, message: Message) -> Message:
        """A message after its way over the wire, in the latest version."""
        if not self.wire:
            return message
        version = message.MAX_VERSION
        return type(message).decode(message.encode(version), version)

    # -- the operator ---------------------------------------------------------------------------------

    def ask(self, node_id: int, request: Message) -> int:
        """An admin client's request; its answer will be in `admin` under the token."""
        token = next(self._ids)
        version = request.MAX_VERSION
        self.nodes[node_id].run(lambda quorum, now: quorum.on_request(now, token, request, version))
        return token

    def leader(self) -> SimulatedNode | None:
        """The leader of the newest epoch that has one."""
        leaders = [node for node in self.nodes.values() if node.leads]
        return max(leaders, key=lambda node: node.quorum.epoch if node.quorum else 0, default=None)

    def heal(self) -> None:
        """End all faults, and start all nodes."""
        self.faults = Faults()
        for node in self.nodes.values():
            if node.quorum is None:
                node.start()

    def partition(self, *groups: tuple[int, ...]) -> None:
        """Nodes reach each other within a group only."""
        of = {node_id: number for number, group in enumerate(groups) for node_id in group}
        self.faults.cut = {
            (one, other)
            for one in self.nodes
            for other in self.nodes
            if one != other and of.get(one) != of.get(other)
        }

    def settled(self) -> bool:
        """Whether there is a leader, and every node has committed all of its entries."""
        leader = self.leader()
        if leader is None or leader.quorum is None:
            return False
        end = leader.log.end_offset
        return all(
            node.quorum is not None
            and node.quorum.high_watermark == end
            and node.quorum.leader_id in (leader.node_id,)
            for node in self.nodes.values()
        )


class Chaos:
    """The faults of a network and its users' actions meanwhile, by the network's own dice."""

    def __init__(self, network: Network, *, changes_voters: bool = True) -> None:
        self.network = network
        self.dice = network.dice
        self._values = itertools.count()
        self._actions: list[tuple[int, Callable[[], None]]] = [
            (30, self.propose),
            (6, self.crash),
            (8, self.restart),
            (5, self.partition),
            (4, self.cut_one_way),
            (6, self.reconnect),
            (4, self.weather),
            (3, self.snapshot),
            (2, self.resign),
            (2, self.power_cut),
            (4, self.crash_leader),
        ]
        if changes_voters:
            self._actions += [(3, self.add_voter), (3, self.remove_voter)]
        self._lost_a_disk = False

    def with_upgrade(self) -> Chaos:
        """Static voters, whose kraft.version is raised at some time; then they change."""
        self._actions += [(3, self.upgrade), (3, self.add_voter), (3, self.remove_voter)]
        return self

    def with_lost_disk(self) -> Chaos:
        """A voter comes back with an empty disk and joins anew by itself; no other voter is removed."""
        self._actions = [each for each in self._actions if each[1] != self.remove_voter]
        self._actions.append((6, self.lose_disk))
        return self

    def about_leaders(self) -> Chaos:
        """Leaders that write alone, fall and come back, and lost answers: figure 8 of the Raft paper."""
        self.network.faults.lost, self.network.faults.late = 150, 300
        self._actions = [
            (6, self.write_alone),
            (6, self.restart),
            (4, self.crash_leader),
            (2, self.crash),
            (2, self.reconnect),
        ]
        return self

    def run(self, steps: int) -> None:
        """So many things happen, each after a while."""
        weights = [weight for weight, _ in self._actions]
        for _ in range(steps):
            self.network.run_for(self.dice.choice((1, 5, 20, 60, 200, 500)))
            (_, action), *_ = self.dice.choices(self._actions, weights)
            action()

    def end_well(self) -> None:
        """Once all faults have ended, the quorum settles, and a new record reaches every node."""
        network = self.network
        network.run_for(100)  # those that resigned are down by then
        network.heal()
        if not network.run_for(60_000, network.settled):
            raise Violation("the quorum does not settle")
        leader = network.leader()
        if leader is None or not leader.propose(next(self._values)):
            raise Violation("the quorum has no leader")
        if not network.run_for(60_000, network.settled):
            raise Violation("a new record does not reach everybody")

    def anybody(self) -> SimulatedNode:
        return self.dice.choice(list(self.network.nodes.values()))

    def propose(self) -> None:
        for node in self.network.nodes.values():
            if node.leads and self.dice.randrange(3):
                node.propose(next(self._values))

    def crash(self) -> None:
        self.anybody().crash()

    def crash_leader(self) -> None:
        """The leader goes, soon after a record was appended."""
        self.propose()
        self.network.run_for(self.dice.choice((0, 3, 10, 30)))
        leader = self.network.leader()
        if leader is not None:
            leader.crash()

    def write_alone(self) -> None:
        """A leader that is cut off writes, and falls."""
        leader = self.network.leader()
        if leader is not None:
            others = tuple(node_id for node_id in self.network.nodes if node_id != leader.node_id)
            self.network.partition((leader.node_id,), others)
            leader.propose(next(self._values))
            self.network.run_for(self.dice.choice((20, 50)))
            leader.crash()
            self.network.faults.cut.clear()

    def power_cut(self) -> None:
        """All go at once, and come back."""
        self.propose()
        self.network.run_for(self.dice.choice((0, 3, 10, 30)))
        for node in self.network.nodes.values():
            node.crash()
        for node in self.network.nodes.values():
            node.start()

    def restart(self) -> None:
        node = self.anybody()
        if node.quorum is None:
            node.start()

    def partition(self) -> None:
        ids = list(self.network.nodes)
        self.dice.shuffle(ids)
        at = self.dice.randint(0, len(ids))
        self.network.partition(tuple(ids[:at]), tuple(ids[at:]))

    def cut_one_way(self) -> None:
        one, other = self.anybody().node_id, self.anybody().node_id
        if one != other:
            self.network.faults.cut.add((one, other))

    def reconnect(self) -> None:
        self.network.faults.cut.clear()

    def weather(self) -> None:
        faults = self.network.faults
        faults.lost, faults.doubled, faults.late = (self.dice.choice((0, 0, 20, 200)) for _ in range(3))

    def snapshot(self) -> None:
        self.anybody().snapshot()

    def resign(self) -> None:
        node = self.anybody()
        node.run(lambda quorum, now: quorum.resign(now))
        self.network.after(self.dice.randint(1, 50), node.crash)

    def upgrade(self) -> None:
        leader = self.network.leader()
        if leader is not None:
            leader.run(lambda quorum, now: quorum.upgrade_kraft_version(now, 1, False)[2])

    def lose_disk(self) -> None:
        leader = self.network.leader()
        if leader is None or leader.quorum is None or self._lost_a_disk:
            return
        voters = leader.quorum.voters
        others = [node_id for node_id in voters.node_ids if node_id != leader.node_id]
        if len(others) < 2 or leader.quorum.voters_at(leader.quorum.high_watermark) != voters:
            return
        self._lost_a_disk = True
        node = self.network.nodes[self.dice.choice(others)]
        node.crash()
        node.log, node.election, node.formatted = SimulatedLog(), ElectionState(), []
        node.key = ReplicaKey(node.node_id, UUID(int=500 + node.node_id))

    def add_voter(self) -> None:
        leader, new = self.network.leader(), self.anybody()
        if leader is not None and leader.quorum is not None:
            listeners = [
                AddedListener(name=each.name, host=each.host, port=each.port) for each in new.listeners
            ]
            request = AddRaftVoterRequest(
                cluster_id=CLUSTER,
                timeout_ms=500,
                voter_id=new.node_id,
                voter_directory_id=new.key.directory_id,
                listeners=listeners,
            )
            self.network.ask(leader.node_id, request)

    def remove_voter(self) -> None:
        leader = self.network.leader()
        if leader is not None and leader.quorum is not None and len(leader.quorum.voters.voters) > 1:
            key = self.dice.choice(leader.quorum.voters.voters).key
            request = RemoveRaftVoterRequest(
                cluster_id=CLUSTER, voter_id=key.node_id, voter_directory_id=key.directory_id
            )
            self.network.ask(leader.node_id, request)
