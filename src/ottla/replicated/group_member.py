"""Membership of an instance in its service's Kafka group, in any protocol of the service's own.

Theory of operation. One task joins, takes its assignment, sends heartbeats, and joins again when the
coordinator or the service says so. A member that has not heard of the coordinator for a session knows that
the others may go on without it, and tells its protocol; while it joins again in time it keeps its assignment.
Two members that both believe for a moment that they are the primary can't both write: see topic.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    MemberIdRequired,
    NoError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from ottla.client.access import ClusterAccess
from ottla.replicated.errors import StateError

log = logging.getLogger("ottla.replicated")

REQUEST_TIMEOUT_MS: Final = 40_000
JOIN_MARGIN_MS: Final = 5_000
RETRY_SECONDS: Final = 0.1
LEAVE_SECONDS: Final = 5.0
_FATAL: Final = (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
)


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """How often the coordinator hears of a member, and after which silence it counts as dead.

    rebalance_timeout_ms: for all members to join again; None: as long as a session.
    """

    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """The membership that an assignment belongs to. `protocol`: the one that all members know."""

    number: int
    member_id: str
    leader_id: str
    protocol: str


class GroupProtocol(Protocol):
    """The protocol of a service's group: the metadata of its members and the assignments of its leader."""

    @property
    def protocol_type(self) -> str:
        """The group's protocol type, as ListGroups shows it."""

    def subscriptions(self) -> Sequence[tuple[str, bytes]]:
        """The protocols that this member knows, the preferred one first, with its metadata in each.

        Asked at every join.
        """

    async def assign(self, generation: Generation, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The assignment of every member, from the metadata of all: asked of the group's leader.

        It may take less than a session: no heartbeat is sent meanwhile.
        """

    def assigned(self, generation: Generation, assignment: bytes) -> None:
        """This member's assignment. Raises ValueError for bytes that are none: the member joins again."""

    def lost(self) -> None:
        """The group may have gone on without this member: until `assigned` it has no part in it."""


class _JoinAgain(Exception):
    """The group rebalances, or has forgotten this member."""


class GroupMember:
    """One member of `group_id`: `run` in a task of its own, and `close` after that."""

    def __init__(
        self, access: ClusterAccess, group_id: str, protocol: GroupProtocol, times: GroupTimes
    ) -> None:
        rebalance_ms = times.rebalance_timeout_ms or times.session_timeout_ms
        # The answer to a JoinGroup request comes when all members have joined.
        timeout_ms = max(access.request_timeout_ms or REQUEST_TIMEOUT_MS, rebalance_ms + JOIN_MARGIN_MS)
        self._client = AIOKafkaClient(**access.with_request_timeout_ms(timeout_ms).aiokafka())
        self._group_id = group_id
        self._protocol = protocol
        self._times = times
        self._member_id = ""
        self._coordinator: int | None = None
        self._rejoin = asyncio.Event()
        self._proved_at = float("-inf")
        self.joins = 0
        """Times that it has joined the group."""
        self.members = 0
        """The members of the group where this one is its leader, else 0."""

    def rejoin(self) -> None:
        """Join again soon, with new metadata: the group rebalances."""
        self._rejoin.set()

    def membership_left_ms(self) -> float:
        """How long the coordinator surely counts it as a member from now on; not above 0: it may not.

        Reckoned from the moment in which the last request was sent that the coordinator has answered as that
        of a member, so that neither a slow answer nor a process that was frozen makes it seem longer.
        """
        silent = asyncio.get_running_loop().time() - self._proved_at
        return self._times.session_timeout_ms - silent * 1000

    async def run(self) -> None:
        """Be a member until cancelled. Raises StateError when the group can never be joined."""
        last_heard = asyncio.get_running_loop().time()
        is_known, is_heard, is_lost = False, True, False
        while True:
            try:
                if not is_known:  # the cluster may be away just now, as it may be later
                    await self._client.bootstrap()
                    is_known = True
                coordinator, generation = await self._join()
                last_heard = asyncio.get_running_loop().time()
                if not is_heard:
                    log.warning("group %s is back", self._group_id)
                is_heard, is_lost = True, False
                while not await self._is_wanted_anew():
                    await self._heartbeat(coordinator, generation)
                    last_heard = asyncio.get_running_loop().time()
            except _JoinAgain:
                continue
            except _FATAL as problem:
                raise StateError(f"group {self._group_id}: {problem}") from problem
            except (KafkaError, TimeoutError) as problem:
                if is_heard:
                    log.warning("group %s can't be reached: %s", self._group_id, problem)
                is_heard = False
                silent = asyncio.get_running_loop().time() - last_heard
                if not is_lost and silent * 1000 > self._times.session_timeout_ms:
                    is_lost = True
                    self._protocol.lost()
                await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Leave the group, so that others need not wait for a session to end."""
        if self._coordinator is not None and self._member_id:
            request = LeaveGroupRequest(self._group_id, self._member_id)
            try:
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._send(self._coordinator, request)
            except (KafkaError, TimeoutError) as problem:
                log.info("group %s could not be left: %s", self._group_id, problem)
        await self._client.close()

    async def _is_wanted_anew(self) -> bool:
        """Wait for the next heartbeat. True if this member is to join again before that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._times.heartbeat_interval_ms / 1000):
                await self._rejoin.wait()
        return self._rejoin.is_set()

    async def _join(self) -> tuple[int, Generation]:
        coordinator = await self._client.coordinator_lookup(CoordinationType.GROUP, self._group_id)
        self._rejoin.clear()
        joined = await self._ask_to_join(coordinator)
        generation = Generation(
            joined.generation_id, joined.member_id, joined.leader_id, joined.group_protocol
        )
        self._coordinator, self._member_id = coordinator, joined.member_id
        given: list[tuple[str, bytes]] = []
        self.joins += 1
        self.members = len(joined.members)
        if joined.leader_id == joined.member_id:
            members = {member[0]: bytes(member[-1]) for member in joined.members}
            given = list((await self._protocol.assign(generation, members)).items())
        request = SyncGroupRequest(self._group_id, joined.generation_id, joined.member_id, None, given)
        sent_at = asyncio.get_running_loop().time()
        answer = await self._send(coordinator, request)
        self._require(answer.error_code)
        self._proved_at = sent_at
        try:
            self._protocol.assigned(generation, answer.member_assignment)
        except ValueError as problem:
            raise KafkaError(f"an assignment that is not understood: {problem}") from problem
        return coordinator, generation

    async def _ask_to_join(self, coordinator: int) -> Any:
        times = self._times
        while True:
            request = JoinGroupRequest(
                self._group_id,
                times.session_timeout_ms,
                times.rebalance_timeout_ms or times.session_timeout_ms,
                self._member_id,
                None,
                self._protocol.protocol_type,
                list(self._protocol.subscriptions()),
            )
            answer = await self._send(coordinator, request)
            if for_code(answer.error_code) is MemberIdRequired:
                self._member_id = answer.member_id
                continue
            self._require(answer.error_code)
            return answer

    async def _heartbeat(self, coordinator: int, generation: Generation) -> None:
        request = HeartbeatRequest(self._group_id, generation.number, generation.member_id)
        sent_at = asyncio.get_running_loop().time()
        answer = await self._send(coordinator, request)
        if for_code(answer.error_code) in (NoError, RebalanceInProgressError):
            self._proved_at = sent_at
        self._require(answer.error_code)

    async def _send(self, coordinator: int, request: Any) -> Any:
        return await self._client.send(coordinator, request, group=ConnectionGroup.COORDINATION)

    def _require(self, error_code: int) -> None:
        error = for_code(error_code)
        if error is NoError:
            return
        if error is UnknownMemberIdError:
            self._member_id = ""
        if error in (UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError):
            raise _JoinAgain
        raise error()
