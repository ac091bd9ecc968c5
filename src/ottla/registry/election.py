"""Elects the primary: this instance's membership in the registry's Kafka group.

Theory of operation. One task joins, learns the primary, sends heartbeats, and joins again when the
coordinator says so. Who has not been heard by the coordinator for a session knows that others may have
elected another primary and gives its role up; while it joins again in time it keeps it. Two that both believe
in their role for a moment can't both write: see topic.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

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
from ottla.registry.membership import (
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    AssignmentError,
    Identity,
    assign,
    encode_identity,
)
from ottla.web.errors import ServiceError

log = logging.getLogger("ottla.registry")

RETRY_SECONDS: Final = 0.1
LEAVE_SECONDS: Final = 5.0
CLIENT_ID: Final = "ottla-registry"
_FATAL: Final = (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
)


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """How often the coordinator hears of this instance, and after what silence it counts as dead."""

    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000


@dataclass(slots=True)
class _Membership:
    coordinator: int
    member_id: str
    generation: int


class _JoinAgain(Exception):
    """The group rebalances, or has forgotten this member."""


class Election:
    """Membership in the group. `on_primary` is told the primary, or None, at first and at each change."""

    def __init__(
        self,
        access: ClusterAccess,
        group_id: str,
        identity: Identity,
        times: ElectionTimes,
        on_primary: Callable[[Identity | None], None],
    ) -> None:
        self._client = AIOKafkaClient(**access.with_client_id(f"{CLIENT_ID}-{identity.port}").aiokafka())
        self._group_id = group_id
        self._identity = identity
        self._times = times
        self._on_primary = on_primary
        self._primary: Identity | None = None
        self._elected = False
        self._member_id = ""
        self._joined: _Membership | None = None

    @property
    def is_primary(self) -> bool:
        """Whether this instance is the one that writes, as far as it knows."""
        return self._primary is not None and self._primary.url == self._identity.url

    async def run(self) -> None:
        """Be a member until cancelled. Raises ServiceError when the group can never be joined."""
        await self._client.bootstrap()
        last_heard = asyncio.get_running_loop().time()
        is_heard = True
        while True:
            try:
                membership, assignment = await self._join()
                self._joined = membership
                self._take(assignment)
                last_heard = asyncio.get_running_loop().time()
                if not is_heard:
                    log.warning("group %s is back", self._group_id)
                is_heard = True
                while True:
                    await asyncio.sleep(self._times.heartbeat_interval_ms / 1000)
                    await self._heartbeat(membership)
                    last_heard = asyncio.get_running_loop().time()
            except _JoinAgain:
                continue
            except _FATAL as problem:
                raise ServiceError(f"group {self._group_id}: {problem}") from problem
            except (KafkaError, TimeoutError) as problem:
                if is_heard:
                    log.warning("group %s can't be reached: %s", self._group_id, problem)
                is_heard = False
                silent = asyncio.get_running_loop().time() - last_heard
                if silent * 1000 > self._times.session_timeout_ms:
                    self._take(Assignment(AssignmentError.NONE, None, None))
                await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Leave the group, so that others need not wait for a session to end."""
        if self._joined is not None:
            request = LeaveGroupRequest(self._group_id, self._joined.member_id)
            try:
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._send(self._joined.coordinator, request)
            except (KafkaError, TimeoutError) as problem:
                log.info("group %s could not be left: %s", self._group_id, problem)
        await self._client.close()

    async def _join(self) -> tuple[_Membership, Assignment]:
        coordinator = await self._client.coordinator_lookup(CoordinationType.GROUP, self._group_id)
        joined = await self._ask_to_join(coordinator)
        membership = _Membership(coordinator, joined.member_id, joined.generation_id)
        self._member_id = joined.member_id
        given: list[tuple[str, bytes]] = []
        if joined.leader_id == joined.member_id:
            members = {member[0]: bytes(member[-1]) for member in joined.members}
            assignment = assign(members).encode()
            given = [(member_id, assignment) for member_id in members]
        request = SyncGroupRequest(self._group_id, joined.generation_id, joined.member_id, None, given)
        answer = await self._send(coordinator, request)
        try:
            self._require(answer.error_code)
            return membership, Assignment.decode(answer.member_assignment)
        except ValueError as problem:
            raise KafkaError(f"an assignment that nobody understands: {problem}") from problem

    async def _ask_to_join(self, coordinator: int) -> Any:
        while True:
            request = JoinGroupRequest(
                self._group_id,
                self._times.session_timeout_ms,
                self._times.session_timeout_ms,
                self._member_id,
                None,
                PROTOCOL_TYPE,
                [(PROTOCOL, encode_identity(self._identity.with_role(self.is_primary)))],
            )
            answer = await self._send(coordinator, request)
            if for_code(answer.error_code) is MemberIdRequired:
                self._member_id = answer.member_id
                continue
            self._require(answer.error_code)
            return answer

    async def _heartbeat(self, membership: _Membership) -> None:
        request = HeartbeatRequest(self._group_id, membership.generation, membership.member_id)
        self._require((await self._send(membership.coordinator, request)).error_code)

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

    def _take(self, assignment: Assignment) -> None:
        if assignment.error is AssignmentError.DUPLICATE_URLS:
            log.error("two instances of the registry say that they are at one URL: set host.name")
        primary = assignment.primary.with_role(True) if assignment.primary is not None else None
        if primary != self._primary or not self._elected:
            self._primary, self._elected = primary, True
            log.info("the primary is %s", "nobody" if primary is None else primary.url)
            self._on_primary(self._primary)
