"""The events and effects of a node of the metadata quorum.

The shell (the broker's, or a simulated one) feeds `Quorum` requests, answers, the ends of its own work and
the time; each call returns effects, which the shell performs in order before it feeds the next event. An
effect that has to be durable (`SaveElection`) is durable before the next one is performed, so that a node
keeps its promises after a crash. Appends become durable later; `on_flushed` says up to which offset.

    SaveElection     quorum-state is replaced and synced
    Send             a request to a node; `on_response` gets its answer, or None, with the `request_id`
    Reply            the answer to a request that came in
    ReplyRecords     the answer to a Fetch, with the log's bytes from `fetch_offset` on put in
    ReplySnapshot    the answer to a FetchSnapshot, with a piece of the snapshot's file put in
    AppendControls   a leader's control batch, at the log's end
    AppendFetched    a leader's batches, verbatim; `on_appended` at once, then sync and `on_flushed`
    Truncate         the log is cut from an offset on
    Commit           everything below the high watermark is committed
    Became           this node's new role; a leader may append only after it
    BeginSnapshot, AppendSnapshot, InstallSnapshot    a leader's snapshot, piece by piece
    Report           a condition that an operator has to know of

Times are milliseconds of a steady clock.
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
    """A snapshot's name: the offset after its last record, and the epoch of that record."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The name of the snapshot's file on disk."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class ReplicaKey(NamedTuple):
    """A node of the quorum: its id and the id of its metadata directory (KIP-853; zero if not known)."""

    node_id: int
    directory_id: UUID


class Address(NamedTuple):
    """The host and port of a node's controller listener."""

    host: str
    port: int


class ListenerEndpoint(NamedTuple):
    """One controller listener of a voter."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """A member of the quorum, its controller listeners and the kraft.versions that it supports."""

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
        """The voter with this id, or None."""
        return next((voter for voter in self.voters if voter.key.node_id == node_id), None)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The voters' ids in ascending order."""
        return tuple(sorted(voter.key.node_id for voter in self.voters))

    @property
    def majority(self) -> int:
        """The number of voters that make a majority."""
        return len(self.voters) // 2 + 1


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The content of `quorum-state`: the newest epoch, its leader if known, and this node's vote in it."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """Kafka's controller.quorum.* settings and related ones, in milliseconds and bytes."""

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
    """Whether this node has the controller role. A node without it never stands for election."""


class QuorumLog(Protocol):
    """The metadata log as the state machine sees it: all appended records, synced or not."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def start_offset(self) -> int:
        """The first offset that is in the log itself."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, or of the snapshot that the log begins after, or 0."""

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest complete snapshot."""

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        """The oldest complete snapshot: the one that ends at `start_offset`, if that is not 0."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch` and the offset after its last record; (-1, -1) if none.

        Only the log itself counts, from `start_offset` on. For an epoch above all others the answer is the
        last epoch and the log's end.
        """


class Randomness(Protocol):
    """The source of random delays: the core draws no random numbers itself."""

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""


class Role(enum.Enum):
    """A node's role in its epoch. Observers are UNATTACHED or FOLLOWER only."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


# -- effects ------------------------------------------------------------------------------------------------


class SaveElection(NamedTuple):
    """Replace quorum-state and sync it, before any effect that follows."""

    state: ElectionState


class Send(NamedTuple):
    """Send a request to `to`. `on_response` is called exactly once, with the answer or None."""

    request_id: int
    to: Address
    request: Message
    timeout_ms: int


class Reply(NamedTuple):
    """Answer the request that came in with `token`."""

    token: int
    response: Message


class ReplyRecords(NamedTuple):
    """Answer a Fetch with `response`, and put the log's bytes from `fetch_offset` on into its only partition:
    at most `max_bytes`, or one batch. The bytes may go up to the log's end.
    """

    token: int
    response: Message
    fetch_offset: int
    max_bytes: int


class ReplySnapshot(NamedTuple):
    """Answer a FetchSnapshot with `response`; put in the file's size, and its bytes from `position` on.

    If the shell has no such snapshot, it puts SNAPSHOT_NOT_FOUND into the only partition instead; if the file
    ends before the position, POSITION_OUT_OF_RANGE.
    """

    token: int
    response: Message
    snapshot: SnapshotId
    position: int
    max_bytes: int


class AppendControls(NamedTuple):
    """Append one control batch of this leader's epoch at the log's end."""

    epoch: int
    records: tuple[tuple[ControlRecordType, bytes], ...]


class AppendFetched(NamedTuple):
    """Check whole batches of the leader (CRC, offsets, epochs) and append them verbatim."""

    records: Buffer
    leader_epoch: int


class Truncate(NamedTuple):
    """Cut the log from `offset` on."""

    offset: int


class Commit(NamedTuple):
    """The high watermark has moved: every node may apply the records below it."""

    high_watermark: int


class Became(NamedTuple):
    """This node's role, leader or epoch has changed."""

    role: Role
    epoch: int
    leader_id: int


class BeginSnapshot(NamedTuple):
    """Begin a temporary file for a leader's snapshot; drop an unfinished one."""

    snapshot: SnapshotId


class AppendSnapshot(NamedTuple):
    """Append these bytes to the snapshot begun."""

    snapshot: SnapshotId
    data: Buffer


class InstallSnapshot(NamedTuple):
    """The snapshot is complete: sync it, put it in place, let the log begin at its end and replay it; then
    call `on_snapshot_installed`.
    """

    snapshot: SnapshotId


class Trouble(enum.Enum):
    """A condition that an operator has to know of."""

    OTHER_CLUSTER = "the node at this address belongs to another cluster"
    DUPLICATE_NODE_ID = "two nodes, or two metadata directories, have this node id"


class Report(NamedTuple):
    """Log the trouble. The state machine reports it once for each epoch, node and address."""

    trouble: Trouble
    node_id: int
    address: Address | None


class QuorumFault(Exception):
    """An event would break Kafka's protocol, for example by cutting committed records. The node has to stop
    before it does harm; the step that raised has no effects.
    """


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
