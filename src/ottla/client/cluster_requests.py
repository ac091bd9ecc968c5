"""Requests to a cluster, sent to the nodes that can answer them: any, the controller, coordinators, leaders.

Theory of operation. `ask` goes to the first bootstrap server that answers, so it works where the brokers'
advertised addresses can't be reached. Everything else needs those addresses: one Metadata request without
topics brings them, and they are kept until a node can't be reached. A coordinator or leader that has moved
says so in its answer; the place is then looked for anew, and the request sent again, until the deadline.
A request that changes something is sent again only where it certainly was not carried out: the connection was
refused, or the answer says that the node is not the right one.

Answers that concern many groups or partitions come back one for each key, because one coordinator may be down
while the others answer: the value is then the ClusterError of that key.
"""

from __future__ import annotations

import asyncio
import enum
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from ottla.client.access import Address, ClusterAccess
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.client.kafka_requests import (
    NodeConnections,
    NodeRefusesUser,
    NodeUnreachable,
    Request,
    RequestByVersion,
    UnsupportedRequest,
)
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from ottla.protocol.schema import Message, Struct, struct_class

T = TypeVar("T", bound=Message)
K = TypeVar("K")
V = TypeVar("V")

DEFAULT_TIMEOUT_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 10.0
"""For a node to take a connection, before the next one is asked."""
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
COORDINATORS_A_REQUEST: Final = 1_000

COORDINATOR_MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class CoordinatorType(enum.IntEnum):
    """The kinds of coordinators that FindCoordinator knows.

    The coordinator of a share group itself is GROUP; SHARE coordinates the state of one of its partitions,
    with the key GROUP:TOPIC_ID:PARTITION.
    """

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker of the cluster, at the address that it advertises."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"broker {self.node_id} at {Address(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster's id, its live brokers by id, and the controller or a broker that reaches it."""

    cluster_id: str
    controller_id: int | None
    brokers: Mapping[int, Broker]


class ClusterRequests:
    """Asks the nodes of one cluster. Every call ends within the timeout.

    All calls raise ClusterError: its `code` is the ErrorCode of the answer, UNSUPPORTED_VERSION for an API
    that the node does not have, SASL_AUTHENTICATION_FAILED for a refused user, or None for a cluster that
    does not answer. Error codes inside of an answer are the caller's to read (`require_success`), apart from
    those that mean that another node has to be asked.
    """

    def __init__(self, access: ClusterAccess, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Raises ClientOptionError for settings that can't be, before any server is asked."""
        access.connection()
        self.timeout_seconds = timeout_seconds
        self._bootstrap = access.addresses()
        self._first: Address | None = None
        self._connections = NodeConnections(access.with_request_timeout_ms(round(timeout_seconds * 1_000)))
        self._cluster: Cluster | None = None
        self._coordinators: dict[tuple[CoordinatorType, str], Broker] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, uuid.UUID] = {}

    @property
    def timeout_ms(self) -> int:
        """The timeout, for requests that carry one."""
        return round(self.timeout_seconds * 1_000)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    # -- one node ------------------------------------------------------------------------------------------

    async def ask(self, request: Request, answer: type[T]) -> T:
        """The answer, of that type, of the first bootstrap server that gives one.

        For requests that any broker can answer, and that do no harm when they are carried out twice.
        """
        problems = []
        first = self._first
        for address in sorted(self._bootstrap, key=lambda address: address != first):
            try:
                response = await self._ask(address, request, answer)
            except ClusterError as problem:
                if problem.code not in (None, ErrorCode.UNSUPPORTED_VERSION):
                    raise
                problems.append(problem)
                continue
            self._first = address
            return response
        code = problems[0].code if problems else None
        raise ClusterError("; ".join(dict.fromkeys(map(str, problems))), code)

    async def ask_node(self, node_id: int, request: Request, answer: type[T]) -> T:
        """The answer of one broker."""
        return await self._ask_broker(await self.broker(node_id), request, answer)

    async def ask_all(self, request: Request, answer: type[T]) -> dict[int, T | ClusterError]:
        """The answers of all live brokers, asked side by side, by their ids."""
        brokers = (await self.cluster(refresh=True)).brokers
        answers = await asyncio.gather(
            *(self._answer_or_error(broker, request, answer) for broker in brokers.values())
        )
        return dict(zip(brokers, answers, strict=True))

    async def ask_controller(self, request: Request, answer: type[T]) -> T:
        """The controller's answer, sent there by a broker.

        The request is not sent again once a broker may have carried it out.
        """
        deadline = _Deadline(self.timeout_seconds)
        while True:
            response = await self._ask_broker(await self._controller(), request, answer)
            if ErrorCode.NOT_CONTROLLER not in error_codes(response) or not await deadline.pause():
                return response
            self._cluster = None

    # -- coordinators --------------------------------------------------------------------------------------

    async def ask_coordinator(self, kind: CoordinatorType, key: str, request: Request, answer: type[T]) -> T:
        """The answer of the coordinator of a group, or of a transactional id."""
        deadline = _Deadline(self.timeout_seconds)
        while True:
            found = (await self.coordinators(kind, [key]))[key]
            if isinstance(found, ClusterError):
                raise found
            try:
                response = await self._ask_broker(found, request, answer)
            except ClusterError as problem:
                # Only a refused connection makes sure that the broker did not carry out the request.
                self._forget(kind, [key])
                if not isinstance(problem, _NotConnected) or not await deadline.pause():
                    raise
                continue
            if COORDINATOR_MOVED.isdisjoint(error_codes(response)) or not await deadline.pause():
                return response
            self._forget(kind, [key])

    async def ask_coordinators(
        self,
        kind: CoordinatorType,
        keys: Iterable[str],
        request: Callable[[Sequence[str]], Request],
        answer: type[T],
        parts: Callable[[T], Iterable[tuple[str, int, V]]],
    ) -> dict[str, V | ClusterError]:
        """The part of each key in the answers of the keys' coordinators, which are asked side by side.

        request: the request about some keys, all of one coordinator. parts: takes an answer apart into keys,
        their error codes, and their values. Every key is in the result, in the order of `keys`.
        """

        async def places(wanted: Sequence[str]) -> Mapping[str, Broker | ClusterError]:
            return await self.coordinators(kind, wanted)

        return await self._ask_places(
            list(dict.fromkeys(keys)),
            places,
            lambda moved: self._forget(kind, moved),
            COORDINATOR_MOVED,
            request,
            answer,
            parts,
            self.timeout_seconds,
        )

    async def coordinators(
        self, kind: CoordinatorType, keys: Sequence[str]
    ) -> dict[str, Broker | ClusterError]:
        """The coordinator of each key; waits for one that is not there yet, until the timeout."""
        deadline = _Deadline(self.timeout_seconds)
        failed: dict[str, ClusterError] = {}
        while True:
            missing = [key for key in keys if (kind, key) not in self._coordinators and key not in failed]
            if not missing:
                known = {key: self._coordinators[kind, key] for key in keys if key not in failed}
                return {key: failed[key] if key in failed else known[key] for key in keys}
            not_yet: dict[str, ClusterError] = {}
            for start in range(0, len(missing), COORDINATORS_A_REQUEST):
                asked = missing[start : start + COORDINATORS_A_REQUEST]
                for key, found in (await self._find_coordinators(kind, asked)).items():
                    if isinstance(found, Broker):
                        self._coordinators[kind, key] = found
                    elif found.code in COORDINATOR_MOVED:
                        not_yet[key] = found
                    else:
                        failed[key] = found
            if not_yet and not await deadline.pause():
                failed |= not_yet

    async def _find_coordinators(
        self, kind: CoordinatorType, keys: Sequence[str]
    ) -> dict[str, Broker | ClusterError]:
        """The answer about each key; by one request a key where the node speaks a version below 4."""
        one_a_request = False

        def request(version: int) -> FindCoordinatorRequest:
            nonlocal one_a_request
            one_a_request = version < 4
            if one_a_request:
                return FindCoordinatorRequest(key=left[0], key_type=kind)
            return FindCoordinatorRequest(key_type=kind, coordinator_keys=left)

        found: dict[str, Broker | ClusterError] = {}
        left = list(keys)
        while left:
            by_version = RequestByVersion(ApiKey.FIND_COORDINATOR, request)
            answer = await self.ask(by_version, FindCoordinatorResponse)
            if one_a_request:
                found[left[0]] = _coordinator(left[0], answer)
                del left[0]
                continue
            found |= {one.key: _coordinator(one.key, one) for one in answer.coordinators}
            unsaid = ClusterError("the answer about coordinators says nothing about it")
            return {key: found.get(key, unsaid) for key in keys}
        return found

    def _forget(self, kind: CoordinatorType, keys: Iterable[str]) -> None:
        for key in keys:
            self._coordinators.pop((kind, key), None)

    # -- leaders -------------------------------------------------------------------------------------------

    async def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        request: Callable[[Sequence[TopicPartition]], Request],
        answer: type[T],
        parts: Callable[[T], Iterable[tuple[TopicPartition, int, V]]],
        seconds: float | None = None,
    ) -> dict[TopicPartition, V | ClusterError]:
        """The part of each partition in the answers of the partitions' leaders, which are asked side by side.

        request: the request about some partitions, all of one leader. parts: takes an answer apart into
        partitions, their error codes, and their values. Every partition is in the result, in the order of
        `partitions`; one that has no leader is waited for up to `seconds` (the timeout).
        """
        return await self._ask_places(
            list(dict.fromkeys(partitions)),
            self._leaders_of,
            self._forget_leaders,
            LEADER_MOVED,
            request,
            answer,
            parts,
            self.timeout_seconds if seconds is None else seconds,
        )

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic, for a request that `ask_leaders` asks to make about the topic's partitions.

        It is as old as the partition's leader: where a topic was deleted and made again, the leader does not
        know the id, and `ask_leaders` asks for a request with the new one.
        """
        return self._topic_ids[name]

    async def _leaders_of(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Broker | ClusterError]:
        found: dict[TopicPartition, Broker | ClusterError] = {}
        unknown = dict.fromkeys(one.topic for one in partitions if one not in self._leaders)
        errors: dict[str, ClusterError] = {}
        if unknown:
            for topic in await self.topics(unknown):
                name = topic.name or ""
                if topic.error_code:
                    errors[name] = topic_error(name, topic.error_code)
                else:
                    self._topic_ids[name] = topic.topic_id
                for one in topic.partitions:
                    if one.leader_id >= 0:
                        self._leaders[TopicPartition(name, one.partition_index)] = one.leader_id
                    else:
                        errors[f"{name}-{one.partition_index}"] = refusal(
                            ErrorCode.LEADER_NOT_AVAILABLE, None, f"{name}-{one.partition_index}"
                        )
        brokers = (await self.cluster()).brokers
        for partition in partitions:
            leader = self._leaders.get(partition)
            broker = None if leader is None else brokers.get(leader)
            error = errors.get(partition.topic) or errors.get(str(partition))
            if broker is not None:
                found[partition] = broker
            elif leader is not None:
                found[partition] = refusal(ErrorCode.LEADER_NOT_AVAILABLE, None, str(partition))
            else:
                found[partition] = error or NoSuchTopic(
                    f"topic {partition.topic} has no partition {partition.partition}",
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
        return found

    def _forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._leaders.pop(partition, None)
        self._cluster = None

    async def _ask_places(
        self,
        keys: Sequence[K],
        places: Callable[[Sequence[K]], Awaitable[Mapping[K, Broker | ClusterError]]],
        forget: Callable[[Sequence[K]], None],
        moved_codes: frozenset[ErrorCode],
        request: Callable[[Sequence[K]], Request],
        answer: type[T],
        parts: Callable[[T], Iterable[tuple[K, int, V]]],
        seconds: float,
    ) -> dict[K, V | ClusterError]:
        """Ask about keys at their places, and again about those whose place has moved."""
        deadline = _Deadline(seconds)
        done: dict[K, V | ClusterError] = {}
        left = list(keys)
        while left:
            again: dict[K, V | ClusterError] = {}
            by_broker: dict[Broker, list[K]] = {}
            for key, place in (await places(left)).items():
                if isinstance(place, Broker):
                    by_broker.setdefault(place, []).append(key)
                elif place.code in moved_codes and not isinstance(place, NoSuchTopic):
                    again[key] = place
                else:
                    done[key] = place
            answers = await asyncio.gather(
                *(self._answer_or_error(broker, request(some), answer) for broker, some in by_broker.items())
            )
            for asked, response in zip(by_broker.values(), answers, strict=True):
                if isinstance(response, ClusterError):
                    (again if isinstance(response, _NotConnected) else done).update(
                        dict.fromkeys(asked, response)
                    )
                    continue
                answered = {key: (code, value) for key, code, value in parts(response)}
                for key in asked:
                    if key not in answered:
                        done[key] = ClusterError(f"the answer says nothing about {key}")
                    elif ErrorCode(answered[key][0]) in moved_codes:
                        again[key] = answered[key][1]
                    else:
                        done[key] = answered[key][1]
            left = list(again)
            forget(left)
            if left and not await deadline.pause():
                done |= again
                break
        return {key: done[key] for key in keys}

    # -- the cluster ---------------------------------------------------------------------------------------

    async def cluster(self, refresh: bool = False) -> Cluster:
        """The cluster's brokers; asked anew for `refresh`, or after a node could not be reached."""
        if self._cluster is None or refresh:
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            self._keep(await self._ask_anyone(request, MetadataResponse))
        assert self._cluster is not None
        return self._cluster

    async def broker(self, node_id: int) -> Broker:
        """A live broker by its id."""
        cluster = await self.cluster()
        if node_id not in cluster.brokers:
            cluster = await self.cluster(refresh=True)
        if node_id not in cluster.brokers:
            there = ", ".join(map(str, sorted(cluster.brokers)))
            raise ClusterError(
                f"the cluster has no live broker {node_id}; there are {there}", ErrorCode.BROKER_NOT_AVAILABLE
            )
        return cluster.brokers[node_id]

    async def topics(self, names: Iterable[str] | None = None) -> list[MetadataResponseTopic]:
        """All topics as Metadata describes them, or those of these names, which may have an error code."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await self.ask(request, MetadataResponse)
        self._keep(response)
        return response.topics

    def _keep(self, response: MetadataResponse) -> None:
        self._cluster = Cluster(
            response.cluster_id or "",
            response.controller_id if response.controller_id >= 0 else None,
            {
                one.node_id: Broker(one.node_id, one.host, one.port, one.rack or None)
                for one in sorted(response.brokers, key=lambda broker: broker.node_id)
            },
        )

    async def _controller(self) -> Broker:
        """The controller, or else a broker that takes a connection and sends requests on."""
        cluster = await self.cluster()
        problems = []
        for broker in sorted(cluster.brokers.values(), key=lambda one: one.node_id != cluster.controller_id):
            try:
                await self._reach(Address(broker.host, broker.port), str(broker))
                return broker
            except _NotConnected as problem:
                self._cluster = None
                problems.append(str(problem))
        raise ClusterError("; ".join(problems) or "the cluster has no live broker")

    # -- sending -------------------------------------------------------------------------------------------

    async def _ask_anyone(self, request: Request, answer: type[T]) -> T:
        """As `ask`; brokers that were there before are asked when no bootstrap server answers."""
        try:
            return await self.ask(request, answer)
        except ClusterError as problem:
            for broker in () if self._cluster is None else self._cluster.brokers.values():
                found = await self._answer_or_error(broker, request, answer)
                if not isinstance(found, ClusterError):
                    return found
            raise problem

    async def _ask_broker(self, broker: Broker, request: Request, answer: type[T]) -> T:
        try:
            return await self._ask(Address(broker.host, broker.port), request, answer, str(broker))
        except _NotConnected:
            self._cluster = None
            raise

    async def _answer_or_error(self, broker: Broker, request: Request, answer: type[T]) -> T | ClusterError:
        try:
            return await self._ask_broker(broker, request, answer)
        except ClusterError as problem:
            return problem

    async def _reach(self, address: Address, name: str) -> None:
        try:
            await self._connections.reach(*address, CONNECT_SECONDS)
        except NodeUnreachable as problem:
            raise _NotConnected(str(problem)) from None
        except NodeRefusesUser as problem:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            raise ClusterError(f"{name} refuses the user: {problem}", code) from None

    async def _ask(self, address: Address, request: Request, answer: type[T], name: str = "") -> T:
        name = name or str(address)
        await self._reach(address, name)
        try:
            response = await self._connections.ask(*address, request)
        except NodeUnreachable as problem:
            raise ClusterError(str(problem)) from None
        except NodeRefusesUser as problem:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            raise ClusterError(f"{name} refuses the user: {problem}", code) from None
        except UnsupportedRequest as problem:
            raise ClusterError(f"{name}: {problem}", ErrorCode.UNSUPPORTED_VERSION) from None
        assert isinstance(response, answer)
        return response


class _NotConnected(ClusterError):
    """The node took no connection, so it carried out nothing."""


class _Deadline:
    """Pauses between tries, each twice as long as the one before, until the time is up."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + seconds
        self._pause_seconds = FIRST_PAUSE_SECONDS

    async def pause(self) -> bool:
        """Pause; False, at once, when the time is up."""
        left = self._end - self._loop.time()
        if left <= 0:
            return False
        await asyncio.sleep(min(self._pause_seconds, left))
        self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)
        return True


# -- reading answers ---------------------------------------------------------------------------------------


def refusal(error_code: int, message: str | None, subject: str = "") -> ClusterError:
    """The error for an answer's code; its sentence begins with the subject, a topic's name say."""
    error = ErrorCode(error_code)
    prefix = f"{subject}: " if subject else ""
    return ClusterError(f"{prefix}{message or error.message} ({error.name})", error)


def require_success(error_code: int, message: str | None, subject: str = "") -> None:
    """Raises ClusterError for an error code; its sentence begins with the subject, a topic's name say."""
    if error_code != ErrorCode.NONE:
        raise refusal(error_code, message, subject)


def topic_error(name: str, error_code: int) -> ClusterError:
    """The error for a topic that Metadata does not describe."""
    if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return NoSuchTopic(f"topic {name} does not exist", error_code)
    return refusal(error_code, None, f"topic {name}")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic -> its partitions, as most requests list them."""
    found: dict[str, list[int]] = {}
    for one in partitions:
        found.setdefault(one.topic, []).append(one.partition)
    return found


def error_codes(part: Struct) -> set[int]:
    """All error codes in an answer, those of its parts included."""
    return set(_error_codes(part))


def _error_codes(part: Struct) -> Iterator[int]:
    for field in struct_class(part).FIELDS:
        value = getattr(part, field.name)
        if field.name == "error_code":
            yield value
        elif isinstance(value, Struct):
            yield from _error_codes(value)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for one in value:
                yield from _error_codes(one)


def _coordinator(key: str, found: Any) -> Broker | ClusterError:
    if found.error_code:
        return refusal(found.error_code, found.error_message, key)
    return Broker(found.node_id, found.host, found.port)
