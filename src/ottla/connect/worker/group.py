"""The worker as a member of its group, and, while it leads the group, the assignments of all workers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from ottla.connect.core.assignment import Memory, assign
from ottla.connect.core.config_image import all_of
from ottla.connect.core.ids import TaskId
from ottla.connect.state.stores import ConfigStore
from ottla.connect.worker.wire import (
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    AssignmentError,
    Metadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from ottla.replicated.group_member import Generation
from ottla.replicated.leadership import Leadership

log = logging.getLogger("ottla.connect")


class Assigned(Protocol):
    """What the worker does with its assignments."""

    @property
    def running(self) -> Sequence[TaskId]:
        """The connectors and tasks that may run here at the moment, those that are being stopped too."""

    def take(self, assignment: Assignment, generation: int) -> None:
        """The assignment of a new generation."""

    def lose(self) -> None:
        """The group may have given everything to others."""


class ConnectGroup:
    """Satisfies GroupProtocol. url: where other workers reach this one."""

    protocol_type: Final = PROTOCOL_TYPE

    def __init__(
        self,
        url: str,
        store: ConfigStore,
        leadership: Leadership,
        assigned: Assigned,
        max_delay_ms: int,
        sync_timeout_ms: int,
        rejoin: Callable[[], None],
    ) -> None:
        self._url = url
        self._store = store
        self._leadership = leadership
        self._assigned = assigned
        self._max_delay_ms = max_delay_ms
        self._sync_seconds = sync_timeout_ms / 1000
        self._rejoin = rejoin
        self._memory = Memory()
        self._due: asyncio.TimerHandle | None = None
        self.generation = -1

    def subscriptions(self) -> Sequence[tuple[str, bytes]]:
        """This worker, and what it runs."""
        metadata = Metadata(self._url, self._store.image.offset, self._assigned.running)
        return [(PROTOCOL, encode_metadata(metadata))]

    async def assign(self, generation: Generation, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """What each worker runs from now on. A worker that can't be understood gets nothing."""
        known: dict[str, Metadata] = {}
        for member, data in members.items():
            try:
                known[member] = decode_metadata(data)
            except (ValueError, UnicodeDecodeError):
                log.warning("member %s of the group can't be understood: it gets no tasks", member)
        offset = max((each.offset for each in known.values()), default=-1)
        if not await self._read_to(offset):
            return dict.fromkeys(
                members, encode_assignment(Assignment(AssignmentError.CONFIG_MISMATCH, offset=offset))
            )
        image = self._store.image
        claims = {member: each.running for member, each in known.items()}
        now_ms = time.monotonic_ns() // 1_000_000
        outcome = assign(all_of(image), claims, self._memory, generation.number, now_ms, self._max_delay_ms)
        self._memory = outcome.memory
        leader_url = known[generation.leader_id].url
        return {
            member: encode_assignment(
                Assignment(
                    AssignmentError.NONE,
                    generation.leader_id,
                    leader_url,
                    image.offset,
                    outcome.assigned.get(member, ()),
                    outcome.revoked.get(member, ()),
                    outcome.delay_ms,
                )
            )
            for member in members
        }

    async def _read_to(self, offset: int) -> bool:
        try:
            async with asyncio.timeout(self._sync_seconds):
                await self._store.wait_for_offset(offset)
            return True
        except TimeoutError:
            log.warning("the configurations were not read up to offset %d in time", offset)
            return False

    def assigned(self, generation: Generation, assignment: bytes) -> None:
        """Learn the leader, and what to run. Raises ValueError."""
        found = decode_assignment(assignment)
        if found.error is not AssignmentError.NONE:
            self._come_again(self._sync_seconds)
            return
        self.generation = generation.number
        is_leader = generation.member_id == generation.leader_id
        self._leadership.learn(found.leader_url, is_leader)
        if not is_leader:
            self._memory = Memory()
        self._assigned.take(found, generation.number)
        if is_leader and found.delay_ms:
            self._come_again(found.delay_ms / 1000)

    def lost(self) -> None:
        """The others may go on without this worker."""
        self._memory = Memory()
        self._leadership.learn(None, False)
        self._assigned.lose()

    def _come_again(self, seconds: float) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_later(seconds, self._rejoin)
