"""One `Quorum` under a test's own hand: requests in, effects out, a log that a test can look into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from ottla.core.quorum import requests
from ottla.core.quorum.api import (
    AppendControls,
    AppendFetched,
    Effect,
    ElectionState,
    ListenerEndpoint,
    QuorumSettings,
    ReplicaKey,
    Reply,
    SaveElection,
    Send,
    SnapshotId,
    Truncate,
    Voter,
    VoterSet,
)
from ottla.core.quorum.control_records import LogControl
from ottla.core.quorum.quorum import Quorum
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import fetch_response, vote_response
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.protocol.messages.vote_response import VoteResponse
from ottla.protocol.schema import ZERO_UUID, Message
from support.core.quorum_network import CLUSTER, Entry, SimulatedLog, controls_in

E = TypeVar("E", bound=Effect)

SETTINGS = QuorumSettings()


class Dice:
    """They always show the same."""

    def below(self, limit: int) -> int:
        return 0


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=100 + node_id))


def listeners(node_id: int) -> tuple[ListenerEndpoint, ...]:
    return (ListenerEndpoint("CONTROLLER", f"node-{node_id}", 9093),)


def voter(node_id: int) -> Voter:
    return Voter(key(node_id), listeners(node_id))


def voters(*node_ids: int) -> VoterSet:
    return VoterSet(tuple(voter(each) for each in node_ids))


def static_voters(*node_ids: int) -> VoterSet:
    return VoterSet(tuple(Voter(ReplicaKey(each, ZERO_UUID), listeners(each)) for each in node_ids))


class NodeUnderTest:
    """Node `node_id`, by default of the voters 0, 1 and 2 (kraft.version 1)."""

    def __init__(
        self,
        node_id: int = 0,
        *,
        among: tuple[int, ...] = (0, 1, 2),
        static: bool = False,
        election: ElectionState | None = None,
        entries: tuple[Entry, ...] = (),
        settings: QuorumSettings = SETTINGS,
    ) -> None:
        self.node_id = node_id
        self.now_ms = 10_000
        self.log = SimulatedLog(list(entries))
        self.effects: list[Effect] = []
        self.last_fetch: Send | None = None
        self._tokens = 0
        history = [] if static else [LogControl(-1, 1), LogControl(-1, voters(*among))]
        self.quorum = Quorum(
            settings,
            CLUSTER,
            key(node_id),
            listeners(node_id) if settings.may_vote else (),
            static_voters(*among) if static else None,
            [*history, *controls_in(list(entries), 0)],
            election or ElectionState(),
            self.log,
            Dice(),
            wall_offset_ms=1_000_000,
        )
        self.do(self.quorum.start(self.now_ms))

    # -- feeding it -----------------------------------------------------------------------------------

    def do(self, effects: list[Effect]) -> list[Effect]:
        """Perform the effects on the log; keep all effects for the test."""
        self.effects = list(effects)
        for effect in effects:
            match effect:
                case AppendControls(epoch, records):
                    self.log.entries += [Entry(epoch, value, kind) for kind, value in records]
                case AppendFetched(records, _):
                    self.log.entries += records  # type: ignore[arg-type]
                case Truncate(offset):
                    self.log.truncate(offset)
                case Send() if isinstance(effect.request, FetchRequest):
                    self.last_fetch = effect
        return self.effects

    def feed(self, event: Callable[[int], list[Effect]]) -> list[Effect]:
        return self.do(event(self.now_ms))

    def after(self, delay_ms: int) -> list[Effect]:
        """Let time pass."""
        self.now_ms += delay_ms
        return self.feed(self.quorum.on_time)

    def flush(self) -> list[Effect]:
        """All of the log is synced."""
        return self.feed(lambda now: self.quorum.on_flushed(now, self.log.end_offset))

    def ask(self, request: Message, version: int | None = None) -> Any:
        """The answer to a request, None if it waits."""
        self._tokens += 1
        token = self._tokens
        at = request.MAX_VERSION if version is None else version
        self.feed(lambda now: self.quorum.on_request(now, token, request, at))
        answer = self.answer_to(token)
        if answer is not None:
            type(answer).decode(answer.encode(at), at)  # it fits into the version
        return answer

    def answer_to(self, token: int) -> Any:
        return next((each.response for each in self.all(Reply) if each.token == token), None)

    @property
    def last_token(self) -> int:
        return self._tokens

    def answer(self, send: Send, response: Message | None) -> list[Effect]:
        return self.feed(lambda now: self.quorum.on_response(now, send.request_id, response))

    # -- looking at it --------------------------------------------------------------------------------

    def all(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def sent(self, kind: type[Message]) -> list[Send]:
        return [send for send in self.all(Send) if isinstance(send.request, kind)]

    @property
    def saved(self) -> list[ElectionState]:
        return [each.state for each in self.all(SaveElection)]

    # -- ways to a role -------------------------------------------------------------------------------

    def be_elected(self, *granting: int) -> NodeUnderTest:
        """Stand for election and win it by these votes; the epoch's first record is synced."""
        self.after(5 * SETTINGS.election_timeout_ms)
        for _ in ("pre-vote", "vote"):
            for send in self.sent(VoteRequest):
                if send.request.voter_id in granting:  # type: ignore[attr-defined]
                    self.answer(send, vote_answer(self.quorum.epoch, granted=True))
        self.flush()
        return self

    def fetched_by(self, node_id: int, offset: int, epoch: int | None = None, **changes: Any) -> Any:
        """The answer to a fetch of a replica from `offset` on; None if it waits."""
        last_epoch = self.log.read(offset - 1, 1)[0].epoch if offset else 0
        return self.ask(
            fetch(node_id, self.quorum.epoch if epoch is None else epoch, (last_epoch, offset), **changes)
        )


def vote_answer(epoch: int, *, granted: bool, leader_id: int = -1) -> VoteResponse:
    partition = vote_response.PartitionData(leader_id=leader_id, leader_epoch=epoch, vote_granted=granted)
    return VoteResponse(
        topics=[vote_response.TopicData(topic_name=requests.METADATA_TOPIC, partitions=[partition])]
    )


def vote_request(
    candidate: int,
    epoch: int,
    log_end: tuple[int, int] = (0, 0),
    *,
    to: ReplicaKey | None = None,
    pre_vote: bool = False,
) -> VoteRequest:
    return requests.vote(CLUSTER, epoch, key(candidate), to or key(0), log_end, pre_vote)


def fetch(
    node_id: int, epoch: int, log_end: tuple[int, int], *, high_watermark: int = -1, wait_ms: int = 500
) -> FetchRequest:
    return requests.fetch(CLUSTER, epoch, key(node_id), log_end, high_watermark, (wait_ms, 1_000_000))


def fetch_answer(
    leader_id: int,
    epoch: int,
    entries: tuple[Entry, ...] = (),
    *,
    high_watermark: int = -1,
    error: ErrorCode = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
    snapshot: SnapshotId | None = None,
) -> FetchResponse:
    partition = fetch_response.PartitionData(
        error_code=error,
        high_watermark=high_watermark,
        current_leader=fetch_response.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        records=entries,  # type: ignore[arg-type]
    )
    if diverging is not None:
        partition.diverging_epoch = fetch_response.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    if snapshot is not None:
        partition.snapshot_id = fetch_response.SnapshotId(
            end_offset=snapshot.end_offset, epoch=snapshot.epoch
        )
    address = listeners(leader_id)[0] if leader_id >= 0 else None
    endpoints = (
        [fetch_response.NodeEndpoint(node_id=leader_id, host=address.host, port=address.port)]
        if address
        else []
    )
    topic = fetch_response.FetchableTopicResponse(topic_id=requests.METADATA_TOPIC_ID, partitions=[partition])
    return FetchResponse(responses=[topic], node_endpoints=endpoints)
