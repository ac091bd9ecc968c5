"""Leading an epoch: answers fetches, moves the high watermark, tells the voters, checks the quorum.

Theory of operation. A fetch is answered at once if there are records, a divergence, a snapshot, an error or a
high watermark that the replica does not know. Otherwise it waits for one of them or for its deadline.
Everything below the offset of a fetch that fits the log is synced at that replica. A leader resigns if no
majority of the voters has fetched from it for a while: it may be cut off, and its followers and clients
should look for another leader.
"""

from __future__ import annotations

from ottla.core.quorum import answers, requests
from ottla.core.quorum.api import ReplicaKey, Reply, ReplyRecords, ReplySnapshot, SnapshotId, Trouble
from ottla.core.quorum.leader import MAX_WAITING_FETCHES, Leader, WaitingFetch
from ottla.core.quorum.node import Node
from ottla.core.quorum.positions import check_position
from ottla.core.quorum.validation import cluster_error, fetch_is_for_metadata, leader_request_error
from ottla.core.quorum.voters import same_replica
from ottla.core.quorum.voting import ready
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.protocol.schema import ZERO_UUID

FETCH_REPLICA_STATE_SINCE = 15
MAX_WAIT_MS = 60_000


class Leading:
    """A node's part as its epoch's leader; it also answers leader requests on nodes that do not lead."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    # -- Fetch ----------------------------------------------------------------------------------------

    def on_fetch(self, token: int, request: FetchRequest, version: int) -> None:
        """Serve a replica's fetch, or let it wait."""
        node = self._node
        error = cluster_error(node, request.cluster_id)
        if error is ErrorCode.NONE and not fetch_is_for_metadata(
            request, version >= answers.FETCH_TOPIC_IDS_SINCE
        ):
            error = ErrorCode.INVALID_REQUEST
        if error is not ErrorCode.NONE:
            node.emit(Reply(token, answers.refusal(request, error)))
            return
        asked = request.topics[0].partitions[0]
        if min(asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) < 0 or (
            request.max_wait_ms < 0
        ):
            error = ErrorCode.INVALID_REQUEST
        else:
            error = leader_request_error(node, asked.current_leader_epoch)
        if error is not ErrorCode.NONE or not isinstance(node.role, Leader):
            self._reply_fetch(token, request, version, error)
            return
        self._serve(node.role, token, request, version, asked)

    def _serve(
        self, leader: Leader, token: int, request: FetchRequest, version: int, asked: FetchPartition
    ) -> None:
        node = self._node
        elsewhere = check_position(node.log, asked.fetch_offset, asked.last_fetched_epoch)
        replica_id = (
            request.replica_state.replica_id if version >= FETCH_REPLICA_STATE_SINCE else request.replica_id
        )
        key = ReplicaKey(replica_id, asked.replica_directory_id)
        if replica_id >= 0:
            self._heard_of(leader, key)
        if elsewhere is not None:
            answer = answers.fetch(
                request, version, ErrorCode.NONE, node.known_leader, self._offsets(), elsewhere
            )
            node.emit(Reply(token, answer))
            return
        if replica_id >= 0 and key != node.local:
            leader.progress_of(key).fetched(node.now_ms, asked.fetch_offset, node.log.end_offset)
            self.update_high_watermark()
        waiting = WaitingFetch(
            token,
            request,
            version,
            asked.fetch_offset,
            asked.high_watermark,
            node.now_ms + min(request.max_wait_ms, MAX_WAIT_MS),
        )
        if self._has_news(waiting) or len(leader.waiting) >= MAX_WAITING_FETCHES:
            self._answer(waiting)
        else:
            leader.waiting[token] = waiting

    def _heard_of(self, leader: Leader, key: ReplicaKey) -> None:
        node = self._node
        leader.heard_of(key, node.now_ms, node.settings.fetch_timeout_ms)
        voter = leader.voters.get(key.node_id)
        other = voter is not None and not same_replica(voter.key, key) and key.directory_id != ZERO_UUID
        if key.node_id == node.local.node_id or other:
            node.report(Trouble.DUPLICATE_NODE_ID, key.node_id, None)

    def _has_news(self, waiting: WaitingFetch) -> bool:
        node = self._node
        return (
            node.log.end_offset > waiting.fetch_offset
            or node.now_ms >= waiting.deadline_ms
            or node.high_watermark > waiting.known_high_watermark
        )

    def _answer(self, waiting: WaitingFetch) -> None:
        node = self._node
        request = waiting.request
        response = answers.fetch(
            request, waiting.api_version, ErrorCode.NONE, node.known_leader, self._offsets()
        )
        if node.log.end_offset > waiting.fetch_offset:
            max_bytes = min(max(request.max_bytes, 1), node.settings.fetch_max_bytes)
            node.emit(ReplyRecords(waiting.token, response, waiting.fetch_offset, max_bytes))
        else:
            node.emit(Reply(waiting.token, response))

    def _reply_fetch(self, token: int, request: FetchRequest, version: int, error: ErrorCode) -> None:
        node = self._node
        answer = answers.fetch(request, version, error, node.known_leader, self._offsets())
        node.emit(Reply(token, answer))

    def _offsets(self) -> tuple[int, int]:
        return self._node.high_watermark, self._node.log.start_offset

    def answer_waiting(self) -> None:
        """Answer the waiting fetches for which there is news."""
        if not isinstance(self._node.role, Leader):
            return
        waiting = self._node.role.waiting
        for fetch in [each for each in waiting.values() if self._has_news(each)]:
            del waiting[fetch.token]
            self._answer(fetch)

    # -- the high watermark ---------------------------------------------------------------------------

    def update_high_watermark(self) -> None:
        """Advance the high watermark to the offset that a majority has synced."""
        node = self._node
        if not isinstance(node.role, Leader):
            return
        leader = node.role
        committed = leader.committed(node.synced_offset)
        if committed is None:
            return
        leader.has_high_watermark = True
        if node.advance_high_watermark(committed):
            self.answer_waiting()

    # -- FetchSnapshot --------------------------------------------------------------------------------

    def on_fetch_snapshot(self, token: int, request: FetchSnapshotRequest, version: int) -> None:
        """Serve a piece of a snapshot to a replica."""
        node = self._node
        error = cluster_error(node, request.cluster_id)
        if error is ErrorCode.NONE and (len(request.topics) != 1 or len(request.topics[0].partitions) != 1):
            error = ErrorCode.INVALID_REQUEST
        if error is not ErrorCode.NONE:
            node.emit(Reply(token, answers.refusal(request, error)))
            return
        topic, asked = request.topics[0].name, request.topics[0].partitions[0]
        snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        if topic != requests.METADATA_TOPIC or asked.partition != 0:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            error = leader_request_error(node, asked.current_leader_epoch)
        if error is ErrorCode.NONE and snapshot == SnapshotId(0, 0):
            # The snapshot that formatting wrote belongs to one node; the first leader copied it into the log.
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif error is ErrorCode.NONE and asked.position < 0:
            error = ErrorCode.POSITION_OUT_OF_RANGE
        response = answers.fetch_snapshot(
            topic, asked.partition, version, error, node.known_leader, snapshot, max(asked.position, 0)
        )
        if error is not ErrorCode.NONE or not isinstance(node.role, Leader):
            node.emit(Reply(token, response))
            return
        if request.replica_id >= 0:
            self._heard_of(node.role, ReplicaKey(request.replica_id, asked.replica_directory_id))
        max_bytes = min(max(request.max_bytes, 1), node.settings.snapshot_fetch_max_bytes)
        node.emit(ReplySnapshot(token, response, snapshot, asked.position, max_bytes))

    # -- time -----------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Answer the fetches that are due, tell voters of the epoch, resign without a majority."""
        node = self._node
        if not isinstance(node.role, Leader):
            return
        leader = node.role
        if leader.checks_quorum():
            if node.now_ms >= leader.check_quorum_deadline_ms:
                node.resign_from_epoch()
                return
            node.wake_at(leader.check_quorum_deadline_ms)
        self.answer_waiting()
        if leader.waiting:
            node.wake_at(min(fetch.deadline_ms for fetch in leader.waiting.values()))
        leader.expire_observers(node.now_ms)
        self._tell_voters(leader)

    def _tell_voters(self, leader: Leader) -> None:
        """Send BeginQuorumEpoch to the voters that have not fetched for half a fetch timeout."""
        node = self._node
        for node_id in leader.other_voters():
            due_ms = leader.begin_due_ms.get(node_id, 0)
            if node.now_ms < due_ms:
                node.wake_at(due_ms)
                continue
            voter = node.voters.get(node_id)
            address = node.address_of_voter(node_id)
            if voter is not None and address is not None and ready(node, address):
                request = requests.begin_epoch(
                    node.cluster_id, node.epoch, node.local.node_id, node.local_listeners, voter.key
                )
                node.send(address, request, node_id=node_id)
