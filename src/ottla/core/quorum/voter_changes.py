"""Changes of the voters (KIP-853): one at a time, each a voters record that counts once in the log.

Theory of operation. A change begins only when this leader has committed a record of its own epoch and the
last voters record is committed too, and it adds or removes one voter, so the majorities before and after
share a node. The new voters count from the moment that the record is appended. The request is answered when
the record is committed; a change whose request timed out goes on nevertheless, and holds off the next one. A
leader that has committed its own removal resigns.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.core.quorum import answers
from ottla.core.quorum.api import ListenerEndpoint, ReplicaKey, Reply, Voter, VoterSet
from ottla.core.quorum.connections import Sent
from ottla.core.quorum.control_records import (
    MAX_VOTERS,
    LogControl,
    kraft_version_control,
    voters_control,
)
from ottla.core.quorum.leader import Leader, VoterChange
from ottla.core.quorum.node import MAX_KRAFT_VERSION, Node
from ottla.core.quorum.validation import cluster_error, leader_request_error
from ottla.core.quorum.voters import address_of, with_voter, without_voter
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.protocol.schema import ZERO_UUID

KRAFT_VERSION_FEATURE = "kraft.version"
MAX_CHANGE_MS = 5 * 60 * 1000

_CHANGES = AddRaftVoterRequest | RemoveRaftVoterRequest


class VoterChanges:
    """The leader's part in changes of the voters."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    # -- AddRaftVoter ---------------------------------------------------------------------------------

    def on_add(self, token: int, request: AddRaftVoterRequest) -> None:
        """Add a voter: ask the new voter for its versions first, then append the record."""
        node = self._node
        leader = self._leader_for(token, request)
        if leader is None:
            return
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        endpoints = _endpoints((each.name, each.host, each.port) for each in request.listeners)
        if key.node_id < 0 or key.directory_id == ZERO_UUID:
            self._refuse(token, request, ErrorCode.INVALID_REQUEST, "the voter has no id or no directory id")
            return
        address = address_of(endpoints, self._listener_name)
        if address is None or not any(each.name == self._listener_name for each in endpoints):
            text = f"the voter has no listener named {self._listener_name}"
            self._refuse(token, request, ErrorCode.INVALID_REQUEST, text)
            return
        refusal = self._obstacle(leader)
        if refusal is None and key.node_id in node.voters:
            refusal = ErrorCode.DUPLICATE_VOTER, f"node {key.node_id} is a voter already"
        if refusal is None and len(node.voters.voters) >= MAX_VOTERS:
            refusal = ErrorCode.INVALID_REQUEST, f"a quorum has at most {MAX_VOTERS} voters"
        if refusal is not None:
            self._refuse(token, request, *refusal)
            return
        timeout_ms = request.timeout_ms if request.timeout_ms > 0 else node.settings.request_timeout_ms
        leader.change = VoterChange(
            token,
            node.now_ms + min(timeout_ms, MAX_CHANGE_MS),
            added=Voter(key, endpoints),
            answer_when_committed=request.ack_when_committed,
        )
        asked = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
        leader.change.request_id = node.send(address, asked, node_id=key.node_id)

    def on_versions(self, request_id: int, sent: Sent, response: ApiVersionsResponse | None) -> bool:
        """Take the new voter's supported versions, or None. False if requests to it should pause."""
        node = self._node
        if not isinstance(node.role, Leader):
            return response is not None
        leader = node.role
        change = leader.change
        if change is None or change.request_id != request_id or change.added is None or change.offset >= 0:
            return response is not None
        if response is None or response.error_code:
            self._abandon(leader, ErrorCode.REQUEST_TIMED_OUT, "the new voter does not answer")
            return False
        supported = next(
            (each for each in response.supported_features if each.name == KRAFT_VERSION_FEATURE), None
        )
        low, high = (0, 0) if supported is None else (supported.min_version, supported.max_version)
        if not low <= node.history.kraft_version <= high:
            text = f"the new voter supports {KRAFT_VERSION_FEATURE} {low} to {high}"
            self._abandon(leader, ErrorCode.INVALID_REQUEST, text)
        elif not leader.is_caught_up(change.added.key, node.now_ms):
            text = "the new voter has not caught up with the log"
            self._abandon(leader, ErrorCode.REQUEST_TIMED_OUT, text)
        else:
            added = Voter(change.added.key, change.added.endpoints, low, high)
            change.offset = self._append(leader, with_voter(node.voters, added))
            if not change.answer_when_committed:
                self._answer(change, ErrorCode.NONE, None)
        return True

    # -- RemoveRaftVoter ------------------------------------------------------------------------------

    def on_remove(self, token: int, request: RemoveRaftVoterRequest) -> None:
        """Remove a voter, perhaps this leader."""
        node = self._node
        leader = self._leader_for(token, request)
        if leader is None:
            return
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        if key.node_id < 0 or key.directory_id == ZERO_UUID:
            self._refuse(token, request, ErrorCode.INVALID_REQUEST, "the voter has no id or no directory id")
            return
        refusal = self._obstacle(leader)
        voters = without_voter(node.voters, key)
        if refusal is None and len(voters.voters) == len(node.voters.voters):
            refusal = (
                ErrorCode.VOTER_NOT_FOUND,
                f"node {key.node_id} with that directory id is not a voter",
            )
        if refusal is None and not voters.voters:
            refusal = ErrorCode.INVALID_REQUEST, "the last voter can't be removed"
        if refusal is not None:
            self._refuse(token, request, *refusal)
            return
        leader.change = VoterChange(token, node.now_ms + node.settings.request_timeout_ms)
        leader.change.offset = self._append(leader, voters)

    # -- UpdateRaftVoter ------------------------------------------------------------------------------

    def on_update(self, token: int, request: UpdateRaftVoterRequest) -> None:
        """Take a voter's registration of its listeners and versions."""
        error = self._update(request)
        self._node.emit(Reply(token, answers.update_voter(error, self._node.known_leader)))

    def _update(self, request: UpdateRaftVoterRequest) -> ErrorCode:
        node = self._node
        error = cluster_error(node, request.cluster_id)
        if error is ErrorCode.NONE:
            error = leader_request_error(node, request.current_leader_epoch)
        if error is not ErrorCode.NONE or not isinstance(node.role, Leader):
            return error
        leader = node.role
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        endpoints = _endpoints((each.name, each.host, each.port) for each in request.listeners)
        low = request.kraft_version_feature.min_supported_version
        high = request.kraft_version_feature.max_supported_version
        known = node.voters.get(key.node_id)
        if (
            key.node_id < 0
            or key.directory_id == ZERO_UUID
            or not any(each.name == self._listener_name for each in endpoints)
            or not 0 <= low <= node.history.kraft_version <= high
        ):
            return ErrorCode.INVALID_REQUEST
        voter = Voter(key, endpoints, low, high)
        if node.history.kraft_version == 0:
            if known is None:
                return ErrorCode.VOTER_NOT_FOUND
            leader.reported[key.node_id] = voter
            return ErrorCode.NONE
        refusal = self._obstacle(leader)
        if refusal is not None:
            return refusal[0]
        if known is None or known.key != key:
            return ErrorCode.VOTER_NOT_FOUND
        if known != voter:
            self._append(leader, with_voter(node.voters, voter))
        return ErrorCode.NONE

    # -- kraft.version --------------------------------------------------------------------------------

    def upgrade(self, version: int, validate_only: bool) -> tuple[ErrorCode, str | None]:
        """Raise kraft.version from 0 to 1: write the static voters, as they registered, into the log."""
        node = self._node
        error = leader_request_error(node, node.epoch)
        if error is not ErrorCode.NONE or not isinstance(node.role, Leader):
            return error, None
        leader = node.role
        now = node.history.kraft_version
        if not 0 <= version <= MAX_KRAFT_VERSION:
            return ErrorCode.INVALID_UPDATE_VERSION, f"{KRAFT_VERSION_FEATURE} {version} is not supported"
        if version == now:
            return ErrorCode.NONE, None
        if version < now:
            return ErrorCode.INVALID_UPDATE_VERSION, f"{KRAFT_VERSION_FEATURE} can't be lowered from {now}"
        if not leader.has_high_watermark or leader.change is not None:
            return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed a record of its epoch yet"
        reported = {**leader.reported, node.local.node_id: node.itself}
        missing = [
            each
            for each in node.voters.node_ids
            if each not in reported or reported[each].max_kraft_version < version
        ]
        if missing:
            text = f"the nodes {', '.join(map(str, missing))} have not registered support for it"
            return ErrorCode.INVALID_UPDATE_VERSION, text
        if not validate_only:
            voters = VoterSet(tuple(reported[each] for each in node.voters.node_ids))
            offset = node.log.end_offset
            node.history.add(LogControl(offset, version))
            node.history.add(LogControl(offset + 1, voters))
            leader.set_voters(voters, node.now_ms, node.settings.fetch_timeout_ms)
            node.append_controls(kraft_version_control(version), voters_control(voters))
        return ErrorCode.NONE, None

    # -- time and progress ----------------------------------------------------------------------------

    def poll(self) -> None:
        """Answer a change that is committed or has timed out; resign after this leader's own removal."""
        node = self._node
        if not isinstance(node.role, Leader):
            return
        leader = node.role
        change = leader.change
        if change is not None and 0 <= change.offset < node.high_watermark:
            self._answer(change, ErrorCode.NONE, None)
            leader.change = None
        elif change is not None and node.now_ms >= change.deadline_ms:
            if change.offset < 0:
                self._abandon(leader, ErrorCode.REQUEST_TIMED_OUT, "the new voter does not answer")
            else:
                self._answer(change, ErrorCode.REQUEST_TIMED_OUT, "the change is not committed yet")
        elif change is not None:
            node.wake_at(change.deadline_ms)
        if not leader.is_voter and node.history.voters_offset < node.high_watermark:
            node.resign_from_epoch()

    def forget(self, token: int) -> None:
        """The connection of the request is gone: the change goes on without an answer."""
        role = self._node.role
        if isinstance(role, Leader) and role.change is not None and role.change.token == token:
            role.change.token = None

    def _answer(self, change: VoterChange, error: ErrorCode, text: str | None) -> None:
        if change.token is not None:
            answer = answers.change_of_voters(change.added is not None, error, text)
            self._node.emit(Reply(change.token, answer))
            change.token = None

    def _abandon(self, leader: Leader, error: ErrorCode, text: str) -> None:
        if leader.change is not None:
            self._answer(leader.change, error, text)
            leader.change = None

    # -- shared by all changes ------------------------------------------------------------------------

    @property
    def _listener_name(self) -> str | None:
        listeners = self._node.local_listeners
        return listeners[0].name if listeners else None

    def _leader_for(self, token: int, request: _CHANGES) -> Leader | None:
        """This leader, or None if it must not serve the request, which is then refused."""
        node = self._node
        error = cluster_error(node, request.cluster_id)
        if error is ErrorCode.NONE:
            error = leader_request_error(node, node.epoch)
        if error is ErrorCode.NONE and isinstance(node.role, Leader):
            return node.role
        text = f"this cluster is {node.cluster_id}" if error is ErrorCode.INCONSISTENT_CLUSTER_ID else None
        self._refuse(token, request, error, text)
        return None

    def _refuse(self, token: int, request: _CHANGES, error: ErrorCode, text: str | None) -> None:
        answer = answers.change_of_voters(isinstance(request, AddRaftVoterRequest), error, text)
        self._node.emit(Reply(token, answer))

    def _obstacle(self, leader: Leader) -> tuple[ErrorCode, str] | None:
        """The error and text of the reason why no change may begin now, or None."""
        node = self._node
        if leader.change is not None:
            return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way"
        if not leader.has_high_watermark:
            return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed a record of its epoch yet"
        if node.history.kraft_version == 0:
            return ErrorCode.UNSUPPORTED_VERSION, f"{KRAFT_VERSION_FEATURE} is 0: the voters are static"
        if not last_change_is_committed(node):
            return ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed yet"
        return None

    def _append(self, leader: Leader, voters: VoterSet) -> int:
        """Append a voters record and use these voters from now on; return the record's offset."""
        node = self._node
        offset = node.append_controls(voters_control(voters))
        node.history.add(LogControl(offset, voters))
        leader.set_voters(voters, node.now_ms, node.settings.fetch_timeout_ms)
        return offset


def last_change_is_committed(node: Node) -> bool:
    """Whether the newest voters are committed: only then may the next change begin."""
    return node.history.uncommitted_from < node.high_watermark


def _endpoints(listeners: Iterable[tuple[str, str, int]]) -> tuple[ListenerEndpoint, ...]:
    return tuple(ListenerEndpoint(name, host, port) for name, host, port in listeners)
