"""What goes into a node of the metadata quorum and what comes out of it.

The shell (the broker's, or a simulated one) feeds `Quorum` requests, answers, ends of its own work and the
time; each call returns effects, which the shell performs in their order before it feeds anything else. An
effect that must be durable (`SaveElection`) is so before the next one is performed: what a node promises
outlives it. Appends become durable later; `on_flushed` says how far.

    SaveElection     quorum-state is replaced and synced
    Send             a request to a node; its answer, or that there is none, comes back by `request_id`
    Reply            the answer to a request that came in
    ReplyRecords     the same for a Fetch, with the log's bytes from `fetch_offset` on put in
    ReplySnapshot    the same for a FetchSnapshot, with a piece of the snapshot's file
    AppendControls   a leader's control batch, at the log's end
    AppendFetched    a leader's batches, verbatim; `on_appended` at once, then sync and `on_flushed`
    Truncate         the log from an offset on goes
    Commit           everything below the high watermark is committed
    Became           what this node is now; a leader may append only after it
    BeginSnapshot, AppendSnapshot, InstallSnapshot    a leader's snapshot, piece by piece
    Report           something that an operator must hear of

Times are a steady clock's milliseconds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from ottla.protocol.record_batch import ControlRecordType
from ottla.protocol.schema import Buffer, Message

NO_NODE = -1


class SnapshotId(NamedTuple):
    """The offset after the last record of a snapshot, and that record's epoch."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The snapshot's name on disk."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class ReplicaKey(NamedTuple):
    """A node of the quorum: its id, and its metadata directory's (KIP-853; zero where it is not known)."""

    node_id: int
    directory_id: UUID


class Address(NamedTuple):
    """Where a node's controller listener is reached."""

    host: str
    port: int


class ListenerEndpoint(NamedTuple):
    """One of a voter's controller listeners."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """A member of the quorum."""

    key: ReplicaKey
    endpoints: tuple[ListenerEndpoint, ...]
    min_kraft_version: int = 0
    max_kraft_version: int = 1


@dataclass(frozen=True, slots=True)
class VoterSet:
    """All voters by node id. Never empty once a quorum is configured."""

    voters: tuple[Voter, ...]

    def __contains__(self, node_id: object) -> bool:
        return any(voter.key.node_id == node_id for voter in self.voters)

    def get(self, node_id: int) -> Voter | None:
        """The voter with this id."""
        return next((voter for voter in self.voters if voter.key.node_id == node_id), None)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The voters' ids in ascending order."""
        return tuple(sorted(voter.key.node_id for voter in self.voters))

    @property
    def majority(self) -> int:
        """How many of them decide."""
        return len(self.voters) // 2 + 1


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What `quorum-state` keeps: the newest epoch, its leader if known, whom this node voted for in it."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """Kafka's controller.quorum.* settings and their kin, in milliseconds and bytes."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 8 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    snapshot_fetch_max_bytes: int = 8 * 1024 * 1024
    bootstrap_servers: tuple[Address, ...] = ()
    auto_join: bool = False
    may_vote: bool = True
    """Whether this node has the controller role: one that has not never stands for election."""


class QuorumLog(Protocol):
    """The metadata log as the state machine sees it: what is appended, whether synced or not."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def start_offset(self) -> int:
        """The first offset that the log itself still has."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, or of the snapshot that the log begins after; 0 without either."""

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest complete snapshot."""

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        """The oldest complete snapshot: where `start_offset` is not 0, the one that ends there."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, the offset after its last record), (-1, -1) if there is none.

        Of what the log itself has, from `start_offset` on. For an epoch above all others it is the last one
        and the log's end.
        """


class Randomness(Protocol):
    """Where random delays come from; the core rolls no dice of its own."""

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""


class Role(enum.Enum):
    """What a node is to its epoch. Observers are UNATTACHED or FOLLOWER only."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


# -- effects ------------------------------------------------------------------------------------------------


class SaveElection(NamedTuple):
    """Make this durable before anything that follows."""

    state: ElectionState


class Send(NamedTuple):
    """A request to the controller listener at `to`. Answered by `on_response`, also when nothing comes."""

    request_id: int
    to: Address
    request: Message
    timeout_ms: int


class Reply(NamedTuple):
    """The answer to the request that came in with `token`."""

    token: int
    response: Message


class ReplyRecords(NamedTuple):
    """A Fetch's answer: `response` with the log's bytes from `fetch_offset` on, at most `max_bytes` or one
    batch, put into its only partition. The bytes may go up to the log's end."""

    token: int
    response: Message
    fetch_offset: int
    max_bytes: int


class ReplySnapshot(NamedTuple):
    """A FetchSnapshot's answer: `response` with the file's size and bytes from `position` on put in.

    Without such a snapshot the shell puts SNAPSHOT_NOT_FOUND into its only partition instead, and for a
    position that is not in the file POSITION_OUT_OF_RANGE.
    """

    token: int
    response: Message
    snapshot: SnapshotId
    position: int
    max_bytes: int


class AppendControls(NamedTuple):
    """One control batch of this leader's epoch at the log's end."""

    epoch: int
    records: tuple[tuple[ControlRecordType, bytes], ...]


class AppendFetched(NamedTuple):
    """Whole batches of the leader, to be checked (CRC, offsets, epochs) and appended verbatim."""

    records: Buffer
    leader_epoch: int


class Truncate(NamedTuple):
    """Cut the log from `offset` on."""

    offset: int


class Commit(NamedTuple):
    """The high watermark: everything below may be applied, by everybody."""

    high_watermark: int


class Became(NamedTuple):
    """This node's role changed, or its leader or epoch did."""

    role: Role
    epoch: int
    leader_id: int


class BeginSnapshot(NamedTuple):
    """A leader's snapshot is about to come: begin an empty file aside, dropping an unfinished one."""

    snapshot: SnapshotId


class AppendSnapshot(NamedTuple):
    """The next bytes of the snapshot begun."""

    snapshot: SnapshotId
    data: Buffer


class InstallSnapshot(NamedTuple):
    """The snapshot is complete: sync it, put it in place, let the log begin at its end, replay it; then
    `on_snapshot_installed`."""

    snapshot: SnapshotId


class Trouble(enum.Enum):
    """What an operator must hear of."""

    OTHER_CLUSTER = "the node at this address belongs to another cluster"
    DUPLICATE_NODE_ID = "two nodes, or two metadata directories, have this node id"


class Report(NamedTuple):
    """Say so in the log; the state machine says it once for each epoch, node and address."""

    trouble: Trouble
    node_id: int
    address: Address | None


class QuorumFault(Exception):
    """What can't be with Kafka's protocol was asked of this node, as to cut committed records: it must stop
    before it does harm. The step that raised had no effects."""


Effect = (
    SaveElection
    | Send
    | Reply
    | ReplyRecords
    | ReplySnapshot
    | AppendControls
    | AppendFetched
    | Truncate
    | Commit
    | Became
    | BeginSnapshot
    | AppendSnapshot
    | InstallSnapshot
    | Report
)
