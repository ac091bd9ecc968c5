"""A connection to the coordinator of a group or a transactional id, which is found anew when it has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla.client.access import Address, ClusterAccess
from ottla.client.cluster_requests import ClusterRequests, CoordinatorType, refusal
from ottla.client.connection import ConnectionLost, NodeConnection, NodeRefusesUser, connect_problem
from ottla.client.errors import ClusterError
from ottla.client.kafka_requests import RequestByVersion
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.schema import Message

FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 1.0
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_LOADING: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT})


class CoordinatorConnection:
    """Asks the coordinator of one key. newest: the versions of APIs not to go beyond."""

    def __init__(
        self,
        cluster: ClusterRequests,
        access: ClusterAccess,
        kind: CoordinatorType,
        key: str,
        newest: dict[ApiKey, int],
    ) -> None:
        self._cluster = cluster
        self._access = access
        self._kind = kind
        self._key = key
        self._newest = newest
        self._connection: NodeConnection | None = None
        self._connecting = asyncio.Lock()

    async def ask(
        self,
        request: Message,
        codes: Callable[[Any], Iterable[int]],
        *,
        waits: frozenset[ErrorCode] = frozenset(),
        seconds: float | None = None,
        once: bool = False,
    ) -> Any:
        """The answer; asked again while the coordinator moves or loads, or answers one of the codes in
        `waits`.

        codes: the error codes of an answer, of which other ones are the caller's to read. seconds: for all
        tries together (the cluster's timeout). once: don't send a request again that may have been carried
        out. Raises ClusterError.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._cluster.timeout_seconds if seconds is None else seconds)
        pause = FIRST_PAUSE_SECONDS
        while True:
            sent = False
            try:
                async with asyncio.timeout_at(deadline):
                    connection = await self._connected()
                    sent = True
                    answer = await connection.ask(*self._versioned(connection, request))
                passing = [
                    code for code in map(ErrorCode, codes(answer)) if code in _MOVED | _LOADING | waits
                ]
                if not passing:
                    return answer
                problem = refusal(passing[0], None, self._key)
                if passing[0] in _MOVED:
                    self.close()
            except NodeRefusesUser as refused:
                code = ErrorCode.SASL_AUTHENTICATION_FAILED
                raise ClusterError(f"the broker refuses the user: {refused}", code) from None
            except (ConnectionLost, OSError, ProtocolError, TimeoutError) as lost:
                self.close()
                why = (
                    "it does not answer in time" if isinstance(lost, TimeoutError) else connect_problem(lost)
                )
                problem = ClusterError(f"the coordinator of {self._key} can't be reached: {why}")
                if sent and once:
                    raise problem from None
            if loop.time() + pause > deadline:
                raise problem
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """Close the connection; the next request finds the coordinator anew."""
        if self._connection is not None:
            self._connection.hang_up()
            self._connection = None

    def _versioned(self, connection: NodeConnection, request: Message) -> tuple[ApiKey, int, Message]:
        assert request.API_KEY is not None
        key = ApiKey(request.API_KEY)
        least, most = connection.versions.get(key, (0, -1))
        version = min(most, self._newest.get(key, APIS[key].latest_stable_version))
        if version < max(least, APIS[key].min_version):
            raise ClusterError(
                f"the coordinator of {self._key} serves no version of {APIS[key].name} that ottla has",
                ErrorCode.UNSUPPORTED_VERSION,
            )
        return key, version, request

    async def _connected(self) -> NodeConnection:
        async with self._connecting:
            if self._connection is None or not self._connection.open:
                self._connection = await NodeConnection.to(await self._address(), self._access.connection())
            return self._connection

    async def _address(self) -> Address:
        def request(version: int) -> FindCoordinatorRequest:
            if version >= 4:
                return FindCoordinatorRequest(key_type=self._kind, coordinator_keys=[self._key])
            return FindCoordinatorRequest(key=self._key, key_type=self._kind)

        asked = RequestByVersion(ApiKey.FIND_COORDINATOR, request)
        while True:
            answer = await self._cluster.ask(asked, FindCoordinatorResponse)
            found = answer.coordinators[0] if answer.coordinators else answer
            code = ErrorCode(found.error_code)
            if code is ErrorCode.NONE:
                return Address(found.host, found.port)
            if code not in _MOVED | _LOADING:
                raise refusal(code, found.error_message, self._key)
            await asyncio.sleep(LONGEST_PAUSE_SECONDS / 10)
