"""The copies of the proxy that share the sessions: which are there, and which has a client.

Theory of operation. The copies are members of a Kafka group; its leader gives all of them the same list of
addresses, from which each finds the copy of a shard (core/shards.py). A copy that has not heard of the group
for a session has no clients any more, as the others may go on without it. For a moment two may believe that a
shard is theirs: the transactional id of the shard lets only one of them write (session_log.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.mqtt.core.shards import owner
from ottla.mqtt.session_log import SessionLog, Unstored
from ottla.replicated.errors import StateError
from ottla.replicated.group_member import Generation, GroupMember, GroupTimes

log = logging.getLogger("ottla.mqtt")

PROTOCOL: Final = "ottla-mqtt-1"
TIMES: Final = GroupTimes(session_timeout_ms=10_000, heartbeat_interval_ms=1_000)
FIND_AGAIN_SECONDS: Final = 2.0
KNOWN_SECONDS: Final = 10.0
"""How long a client waits for the copies to agree."""
BEGIN_SECONDS: Final = 15.0
"""How long a copy that starts waits for that before it takes clients."""
ASSIGNED_PREFIX: Final = "ottla-"
_ATTEMPTS: Final = 1_000


def new_client_id() -> str:
    """For a client that has given none."""
    return ASSIGNED_PREFIX + secrets.token_urlsafe(12)


class Copies:
    """Satisfies GroupProtocol. address: where the others reach this copy. changed: who is there has."""

    protocol_type: Final = "ottla-mqtt"

    def __init__(
        self,
        access: ClusterAccess,
        group_id: str,
        address: str,
        sessions: SessionLog,
        changed: Callable[[], None],
    ) -> None:
        self.address = address
        self._sessions = sessions
        self._changed = changed
        self._addresses: tuple[str, ...] = ()
        self._known = asyncio.Event()
        self._access = access
        self._group_id = group_id
        self._member: GroupMember | None = None

    async def run(self) -> str:
        """Be one of the copies until cancelled; returns why that can't be."""
        while True:
            try:
                await self._sessions.find(make=True)
                break
            except Unstored as problem:
                log.warning("the sessions can't be found: %s", problem)
                await asyncio.sleep(FIND_AGAIN_SECONDS)
        self._member = GroupMember(self._access, self._group_id, self, TIMES)
        try:
            await self._member.run()
        except StateError as problem:
            return str(problem)
        return "the group of the copies has ended"

    async def begun(self) -> None:
        """Return once this is one of the copies, or after a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                await self._known.wait()

    async def close(self) -> None:
        """Leave the others, once `run` has ended."""
        if self._member is not None:
            await self._member.close()

    def is_mine(self, shard: int) -> bool:
        """Whether this copy has a shard."""
        return owner(shard, self._addresses) == self.address

    def has(self, client_id: str) -> bool:
        """Whether this copy has a client."""
        return self.is_mine(self._sessions.shard_of(client_id))

    async def address_of(self, client_id: str) -> str | None:
        """Where the copy is reached that has a client; None while none is known."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KNOWN_SECONDS):
                await self._known.wait()
        if not self._addresses:
            return None
        return owner(self._sessions.shard_of(client_id), self._addresses)

    def new_client_id(self) -> str:
        """For a client that has given none: one that this copy has, if it has any."""
        for _ in range(_ATTEMPTS if self._addresses else 1):
            found = new_client_id()
            if self._addresses and self.has(found):
                break
        return found

    # -- the group ------------------------------------------------------------------------------------------

    def subscriptions(self) -> Sequence[tuple[str, bytes]]:
        """See GroupProtocol."""
        return [(PROTOCOL, self.address.encode())]

    async def assign(self, generation: Generation, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The same for all: every address."""
        addresses = sorted({each.decode("utf-8", "replace") for each in members.values()})
        if len(addresses) < len(members):
            log.error("two copies say that they are at one address: set ottla.mqtt.copies.address")
        return dict.fromkeys(members, json.dumps(addresses).encode())

    def assigned(self, generation: Generation, assignment: bytes) -> None:
        """Learn who is there. Raises ValueError."""
        match json.loads(assignment):
            case list(addresses):
                self._addresses = tuple(map(str, addresses))
            case _:
                raise ValueError("not an assignment of this group")
        log.info("the copies are %s", ", ".join(self._addresses))
        self._known.set()
        self._changed()

    def lost(self) -> None:
        """The others may go on without this one."""
        self._addresses = ()
        self._known.clear()
        self._changed()
