"""One node of the metadata quorum: requests, answers, ends of its own work and the time in, effects out.

Theory of operation. The shell makes one `Quorum` a node from what its disk holds (all of it synced), calls
`start`, and performs the effects of every call in their order before it feeds anything else. After each call
it asks `next_wake_ms` when to call `on_time`.

What the shell owes for its effects:

    Send                 `on_response` once, with the answer or None
    AppendControls       append, `on_leader_appended`; sync, `on_flushed`
    AppendFetched        check and append, then at once `on_appended` with the control records in it, for voters
                         count as soon as they are in the log; sync, `on_flushed`. Bad bytes: `on_append_failed`
    InstallSnapshot      sync, put in place, replay; `on_snapshot_installed`. Bad file: `on_snapshot_failed`
    others               nothing

A controller's own records: append, `on_leader_appended`, sync, `on_flushed`. `on_flushed` may lag and may
join several appends. No fetch goes out while the log has a tail that is not synced: the offset of a fetch
tells the leader what is durable here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.core.quorum.api import (
    Address,
    Effect,
    ElectionState,
    ListenerEndpoint,
    QuorumLog,
    QuorumSettings,
    Randomness,
    ReplicaKey,
    Role,
    SnapshotId,
    VoterSet,
)
from ottla.core.quorum.control_records import LogControl
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message


class Quorum:
    """The KRaft state machine of one node.

    `static_voters` are those of controller.quorum.voters (kraft.version 0), None without. `history` has the
    voters and kraft.version records of the latest snapshot (at the offset before its end, so -1 for the one
    that formatting wrote) and of the log after it, in order; they go before `static_voters` where the log's
    kraft.version is 1. `local_listeners` are this node's controller listeners as others reach them, empty for
    a node without that role. `wall_offset_ms` is the wall clock minus the clock of `now_ms`; DescribeQuorum
    alone uses it, and the shell may set it anew.
    """

    def __init__(
        self,
        settings: QuorumSettings,
        cluster_id: str,
        local: ReplicaKey,
        local_listeners: tuple[ListenerEndpoint, ...],
        static_voters: VoterSet | None,
        history: Iterable[LogControl],
        election: ElectionState,
        log: QuorumLog,
        random: Randomness,
        wall_offset_ms: int = 0,
    ) -> None:
        self.wall_offset_ms = wall_offset_ms

    # -- what the shell may ask -----------------------------------------------------------------------

    @property
    def local(self) -> ReplicaKey:
        """This node."""
        ...

    @property
    def role(self) -> Role:
        """What this node is to its epoch."""
        ...

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows."""
        ...

    @property
    def leader_id(self) -> int:
        """The epoch's leader, NO_NODE while unknown."""
        ...

    @property
    def leader_address(self) -> Address | None:
        """Where the leader's controller listener is."""
        ...

    @property
    def voters(self) -> VoterSet:
        """The newest voters, committed or not; empty on an observer that knows none yet."""
        ...

    @property
    def kraft_version(self) -> int:
        """0: static voters; 1: voters in the log (KIP-853)."""
        ...

    def voters_at(self, offset: int) -> VoterSet | None:
        """The voters that the log names below `offset`: what a snapshot that ends there holds. None: none."""
        ...

    def kraft_version_at(self, offset: int) -> int:
        """The kraft.version below `offset`."""
        ...

    @property
    def high_watermark(self) -> int:
        """Everything below is committed; -1 while unknown."""
        ...

    def next_wake_ms(self) -> int | None:
        """When `on_time` is due."""
        ...

    # -- events ---------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> list[Effect]:
        """Begin. A single voter is its leader when this returns."""
        ...

    def on_time(self, now_ms: int) -> list[Effect]:
        """The time has come that `next_wake_ms` told; earlier and later do no harm."""
        ...

    def on_request(self, now_ms: int, token: int, request: Message, api_version: int) -> list[Effect]:
        """A request of a node or an admin client came in. It is answered once, now or later, by `token`.

        Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, DescribeQuorum, AddRaftVoter,
        RemoveRaftVoter, UpdateRaftVoter.
        """
        ...

    def on_disconnected(self, token: int) -> None:
        """Nobody waits for the answer any more."""
        ...

    def on_response(self, now_ms: int, request_id: int, response: Message | None) -> list[Effect]:
        """The answer to a `Send`; None if there is none."""
        ...

    def on_appended(self, now_ms: int, controls: Sequence[LogControl] = ()) -> list[Effect]:
        """The batches of `AppendFetched` are in the log, not yet synced; these control records are in them."""
        ...

    def on_leader_appended(self, now_ms: int) -> list[Effect]:
        """This leader's log has grown: fetches that wait are answered."""
        ...

    def on_flushed(self, now_ms: int, end_offset: int) -> list[Effect]:
        """Everything below is synced. A leader's own log counts only then, a follower fetches on only then."""
        ...

    def on_append_failed(self, now_ms: int) -> list[Effect]:
        """The batches of `AppendFetched` were not appended: they are fetched again, after a pause."""
        ...

    def on_snapshot_installed(
        self, now_ms: int, snapshot: SnapshotId, controls: Sequence[LogControl]
    ) -> list[Effect]:
        """The log begins at the snapshot's end, everything synced; `controls` are the snapshot's, in order."""
        ...

    def on_snapshot_failed(self, now_ms: int) -> list[Effect]:
        """The snapshot's bytes are no snapshot: it is fetched again from its beginning, after a pause."""
        ...

    def on_snapshot_written(self, now_ms: int) -> list[Effect]:
        """A snapshot of this node is in place, or the log's start has moved."""
        ...

    def resign(self, now_ms: int) -> list[Effect]:
        """A clean stop begins: a leader hands over; nobody else stands for election any more.

        Done when `resigned` says so, or when the shell has waited long enough.
        """
        ...

    @property
    def resigned(self) -> bool:
        """After `resign`: whether nothing is left to wait for."""
        ...

    def upgrade_kraft_version(
        self, now_ms: int, version: int, validate_only: bool
    ) -> tuple[ErrorCode, str | None, list[Effect]]:
        """UpdateFeatures' kraft.version: the error and its text, or NONE. The record is appended, not committed."""
        ...
