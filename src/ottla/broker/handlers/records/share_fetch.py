"""ShareFetch and ShareAcknowledge (API keys 78 and 79): versions 1 and 2 (KIP-932).

v2: acquire modes (KIP-1206), renewed acquisition locks (KIP-1222), the lock's duration in ShareAcknowledge

A ShareFetch may carry acknowledgements: they are taken first, and answered beside the records. Its partitions
are those of the member's share session (core/share/sessions.py); a request of epoch -1 ends the session,
fetches nothing and releases the records that the member holds. A request that renews (`is_renew_ack`) fetches
nothing either, and must not ask for records. Errors of the request as a whole:

    UNSUPPORTED_VERSION            share.version is not finalized
    INVALID_REQUEST                no group, a member id of other than 1 to 36 characters, limits beside a
                                   renewal, acknowledgements in a session's first request
    SHARE_SESSION_NOT_FOUND        no session of that group and member
    INVALID_SHARE_SESSION_EPOCH    not the session's next request
    SHARE_SESSION_LIMIT_REACHED    no room for another session; answered after max_wait_ms, so that it is not
                                   tried again at once

Records wait for `min_bytes` until `max_wait_ms`, as in Fetch; acknowledgements are answered with them, when
they are durable. A share partition that cannot be loaded is answered with its error when the time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from ottla.broker.network.connection import Reply
from ottla.broker.network.context import RequestContext
from ottla.broker.network.replies import frame_reply_in_parts
from ottla.broker.share.share_fetching import FetchLimits, ShareFetch, failed
from ottla.broker.share.share_partition_leader import SharePartitionLeader
from ottla.broker.share.share_partitions import SharePartitions
from ottla.core.image.features import SHARE_VERSION
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.core.share.acquisition import AcquireMode, Wanted
from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    ShareSession,
    TopicPartition,
)
from ottla.core.share.share_partition import GAP, RENEW, Acknowledgement
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import (
    ErrorCode,
    GroupAuthorizationFailed,
    InvalidRequest,
    KafkaError,
    ShareSessionLimitReached,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.protocol.messages import share_acknowledge_response, share_fetch_response
from ottla.protocol.messages.share_acknowledge_request import (
    ShareAcknowledgeRequest,
)
from ottla.protocol.messages.share_acknowledge_response import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ottla.protocol.messages.share_fetch_request import ShareFetchRequest
from ottla.protocol.messages.share_fetch_response import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

T = TypeVar("T")

MAX_MEMBER_ID_LENGTH = 36
FIRST_VERSION_WITH_RENEWALS = 2


class Acknowledged(NamedTuple):
    """The outcome of the acknowledgements of each share partition, where it is known already."""

    results: dict[TopicPartition, KafkaError | None]
    waiting: dict[TopicPartition, asyncio.Future[None]]
    """Done, perhaps with a KafkaError, when the acknowledgements are durable."""


# -- ShareFetch -------------------------------------------------------------------------------------


def share_fetch(node: Node, context: RequestContext, body: memoryview) -> Reply | Awaitable[Reply]:
    """Answer at once, or when acknowledgements are durable and records there."""
    request, _ = ShareFetchRequest.decode_prefix(body, context.api_version)
    shared = node.share_partitions
    shared.counters.fetches += 1
    try:
        member = _member(node, context, request.group_id, request.member_id)
        _check_renewal(request)
        session = _session(shared, context, member, request)
    except ShareSessionLimitReached as error:
        shared.counters.failed_fetches += 1
        return _refuse_later(context, request.max_wait_ms, error)
    except KafkaError as error:
        shared.counters.failed_fetches += 1
        return _fetch_reply(context, ShareFetchResponse(error_code=error.code, responses=[]))
    under_way = _ShareFetchRequest(node, shared, context, request, member, session)
    return under_way.answer()


def _check_renewal(request: ShareFetchRequest) -> None:
    if request.is_renew_ack and (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    ):
        raise InvalidRequest("A request that renews acquisition locks must not ask for records.")


def _session(
    shared: SharePartitions, context: RequestContext, member: SessionKey, request: ShareFetchRequest
) -> ShareSession | None:
    """The member's session as of this request; None when it is its last."""
    named = [
        (topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    match request.share_session_epoch:
        case epoch if epoch == FINAL_EPOCH:
            shared.sessions.check(member)
            return None
        case epoch if epoch == INITIAL_EPOCH:
            acknowledges = any(
                partition.acknowledgement_batches
                for topic in request.topics
                for partition in topic.partitions
            )
            return shared.sessions.begin(member, named, context.session.connection, acknowledges=acknowledges)
        case epoch:
            forgotten = [
                (topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ]
            return shared.sessions.proceed(member, epoch, named, forgotten)


async def _refuse_later(context: RequestContext, wait_ms: int, error: KafkaError) -> Reply:
    await asyncio.sleep(max(0, wait_ms) / 1000)
    return _fetch_reply(context, ShareFetchResponse(error_code=error.code, responses=[]))


def _fetch_reply(context: RequestContext, response: ShareFetchResponse) -> Reply:
    response.throttle_time_ms = context.session.throttle_ms
    return frame_reply_in_parts(ApiKey.SHARE_FETCH, context.api_version, context.correlation_id, response)


class _ShareFetchRequest(NamedTuple):
    """One accepted request."""

    node: Node
    shared: SharePartitions
    context: RequestContext
    request: ShareFetchRequest
    member: SessionKey
    session: ShareSession | None

    def answer(self) -> Reply | Awaitable[Reply]:
        acknowledged = self._acknowledge()
        found: dict[TopicPartition, PartitionData] = {}
        fetch: ShareFetch | None = None
        if self.session is not None and not self.request.is_renew_ack:
            fetch = self._fetch(self.session, found)
        waits_for_records = fetch is not None and not fetch.try_now()
        if not waits_for_records and not acknowledged.waiting:
            return self._reply(found, fetch, acknowledged)
        # A future, not a coroutine: it is cancelled if the client hangs up, and waits for records no more.
        reply: asyncio.Future[Reply] = self.node.loop.create_future()
        connection = self.context.session.connection
        waiting = [*acknowledged.waiting.values()]
        if fetch is not None and waits_for_records:
            waiting.append(fetch.wait(self.request.max_wait_ms))
            if connection is not None:
                self.shared.fetch_waits(connection, fetch)

        def all_is_there(_: asyncio.Future[Any]) -> None:
            if connection is not None:
                self.shared.fetch_waits(connection, None)
            if reply.done():  # the client has hung up
                return
            try:
                reply.set_result(self._reply(found, fetch, acknowledged))
            except Exception as problem:  # for the connection to log, as it does for any handler
                reply.set_exception(problem)

        asyncio.gather(*waiting, return_exceptions=True).add_done_callback(all_is_there)
        return reply

    # -- acknowledgements -----------------------------------------------------------------------

    def _acknowledge(self) -> Acknowledged:
        named = {
            (topic.topic_id, partition.partition_index): [
                Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
                for each in partition.acknowledgement_batches
            ]
            for topic in self.request.topics
            for partition in topic.partitions
        }
        if not any(named.values()):
            return Acknowledged({}, {})
        return _acknowledge(
            self.node,
            self.context,
            self.shared,
            self.member,
            named,
            renews=_renews(self.context, self.request.is_renew_ack),
        )

    # -- records --------------------------------------------------------------------------------

    def _fetch(self, session: ShareSession, found: dict[TopicPartition, PartitionData]) -> ShareFetch | None:
        """The fetch from the session's partitions; those that are not there go to `found` with an error."""
        request, image = self.request, self.node.image
        leaders: list[SharePartitionLeader] = []
        partitions = list(session.partitions)
        if request.share_session_epoch > 0 and partitions:
            # Another partition comes first each time, so that a small fetch starves none.
            at = request.share_session_epoch % len(partitions)
            partitions = partitions[at:] + partitions[:at]
        may = self.node.authorization
        nothing_wanted = not request.max_records or not request.max_bytes
        for partition in partitions:
            topic_id, index = partition
            topic = image.topics_by_id.get(topic_id)
            error: KafkaError
            if topic is None:
                error = UnknownTopicId()
            elif not may.allows(self.context, AclOperation.READ, ResourceType.TOPIC, topic.name):
                error = TopicAuthorizationFailed()
            elif index not in topic.partitions:
                error = UnknownTopicOrPartition()
            elif nothing_wanted:
                continue
            else:
                try:
                    leaders.append(self.shared.leader(SharePartitionKey(session.key.group_id, *partition)))
                    continue
                except KafkaError as problem:
                    error = problem
            found[partition] = failed(index, error)
        if not leaders:
            return None
        wanted = Wanted(
            session.key.member_id,
            request.max_records,
            request.batch_size,
            AcquireMode.RECORD_LIMIT
            if request.share_acquire_mode == AcquireMode.RECORD_LIMIT
            else AcquireMode.BATCH_OPTIMIZED,
        )
        max_bytes = min(request.max_bytes, self.node.replication.settings.fetch_max_bytes)
        if self.node.client_quotas.limits_fetch:
            max_bytes = min(max_bytes, self.node.client_quotas.most_fetched_at_once(self.context))
        limits = FetchLimits(
            min(request.min_bytes, max_bytes), max_bytes, self.shared.reads_committed(session.key.group_id)
        )
        return ShareFetch(self.shared.counters, leaders, wanted, limits)

    # -- answering ------------------------------------------------------------------------------

    def _reply(
        self,
        found: dict[TopicPartition, PartitionData],
        fetch: ShareFetch | None,
        acknowledged: Acknowledged,
    ) -> Reply:
        session = self.session
        is_first = self.request.share_session_epoch == INITIAL_EPOCH
        if fetch is not None:
            found.update(fetch.answers)
        named: dict[TopicPartition, PartitionData] = {}
        for partition, data in found.items():
            has_records, has_error = bool(data.records), data.error_code != ErrorCode.NONE
            if session is None or is_first:
                named[partition] = data
            elif session.must_name(partition, has_records=has_records, has_error=has_error):
                named[partition] = data
                if has_records:  # partitions that gave something come last the next time
                    session.partitions[partition] = session.partitions.pop(partition, False)
        for partition, error in _settled(self.shared, acknowledged).items():
            data = named.setdefault(
                partition, PartitionData(partition_index=partition[1], records=b"", acquired_records=[])
            )
            if error is not None:
                data.acknowledge_error_code = error.code
                data.acknowledge_error_message = str(error) or error.code.message
        if self.request.share_session_epoch == FINAL_EPOCH:
            self.shared.release_session(self.member)
        response = ShareFetchResponse(
            error_code=0,
            acquisition_lock_timeout_ms=self.shared.settings_of(self.member.group_id).lock_duration_ms,
            responses=_by_topic(named.items(), ShareFetchableTopicResponse),
        )
        for partition, data in named.items():
            _name_leader(self.node, self.context, partition, data, response)
        quotas = self.node.client_quotas
        if quotas.limits_fetch:
            quotas.record_share_fetch(self.context, sum(len(data.records or b"") for data in named.values()))
        return _fetch_reply(self.context, response)


# -- ShareAcknowledge -------------------------------------------------------------------------------


def share_acknowledge(
    node: Node, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    """Take acknowledgements and answer when they are durable; with epoch -1 also end the session."""
    shared = node.share_partitions
    shared.counters.acknowledge_requests += 1
    try:
        member = _member(node, context, request.group_id, request.member_id)
        shared.sessions.acknowledge(member, request.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, responses=[])
    named = {
        (topic.topic_id, partition.partition_index): [
            Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
            for each in partition.acknowledgement_batches
        ]
        for topic in request.topics
        for partition in topic.partitions
    }
    acknowledged = _acknowledge(
        node, context, shared, member, named, renews=_renews(context, request.is_renew_ack)
    )

    def respond() -> ShareAcknowledgeResponse:
        if request.share_session_epoch == FINAL_EPOCH:
            shared.release_session(member)
        answers = {
            partition: share_acknowledge_response.PartitionData(
                partition_index=partition[1],
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else str(error) or error.code.message,
            )
            for partition, error in _settled(shared, acknowledged).items()
        }
        response = ShareAcknowledgeResponse(
            error_code=0,
            acquisition_lock_timeout_ms=shared.settings_of(member.group_id).lock_duration_ms,
            responses=_by_topic(answers.items(), ShareAcknowledgeTopicResponse),
        )
        for partition, data in answers.items():
            _name_leader(node, context, partition, data, response)
        return response

    async def respond_later() -> ShareAcknowledgeResponse:
        await asyncio.gather(*acknowledged.waiting.values(), return_exceptions=True)
        return respond()

    return respond_later() if acknowledged.waiting else respond()


# -- both -------------------------------------------------------------------------------------------


class _Renewals(NamedTuple):
    """Whether acknowledgements of a request may renew locks at all, and whether the request announces it."""

    known: bool
    announced: bool


def _renews(context: RequestContext, announced: bool) -> _Renewals:
    return _Renewals(context.api_version >= FIRST_VERSION_WITH_RENEWALS, announced)


def _member(node: Node, context: RequestContext, group_id: str | None, member_id: str | None) -> SessionKey:
    """The group and member of a request.

    Raises UnsupportedVersion, InvalidRequest or GroupAuthorizationFailed.
    """
    if not node.image.features.get(SHARE_VERSION):
        raise UnsupportedVersion()
    if group_id is None:
        raise InvalidRequest("The request names no group.")
    if not node.authorization.allows(context, AclOperation.READ, ResourceType.GROUP, group_id):
        raise GroupAuthorizationFailed()
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise InvalidRequest("The request names no valid member.")
    return SessionKey(group_id, member_id)


def _acknowledge(
    node: Node,
    context: RequestContext,
    shared: SharePartitions,
    member: SessionKey,
    named: dict[TopicPartition, list[Acknowledgement]],
    *,
    renews: _Renewals,
) -> Acknowledged:
    """Check and take acknowledgements."""
    results: dict[TopicPartition, KafkaError | None] = {}
    waiting: dict[TopicPartition, asyncio.Future[None]] = {}
    empty: list[TopicPartition] = []
    taken = False
    for partition, acknowledgements in named.items():
        topic_id, index = partition
        topic = node.image.topics_by_id.get(topic_id)
        try:
            if topic is None:
                raise UnknownTopicId()
            _check_acknowledgements(acknowledgements, renews)
            _require_readable(node, context, topic.name)
            if index not in topic.partitions:
                raise UnknownTopicOrPartition()
            if not acknowledgements:
                empty.append(partition)
                continue
            taken = True
            done = shared.acknowledge(member, partition, acknowledgements)
        except KafkaError as error:
            shared.counters.failed_acknowledgements += 1
            results[partition] = error
            continue
        results[partition] = None
        if done is not None:
            waiting[partition] = done
    if taken:
        results.update(dict.fromkeys(empty))
    return Acknowledged(results, waiting)


def _require_readable(node: Node, context: RequestContext, topic: str) -> None:
    if not node.authorization.allows(context, AclOperation.READ, ResourceType.TOPIC, topic):
        raise TopicAuthorizationFailed()


def _settled(shared: SharePartitions, acknowledged: Acknowledged) -> dict[TopicPartition, KafkaError | None]:
    """The outcome of each share partition's acknowledgements, once all of them are settled."""
    for partition, done in acknowledged.waiting.items():
        error = done.exception()
        if error is not None:
            assert isinstance(error, KafkaError)
            shared.counters.failed_acknowledgements += 1
            acknowledged.results[partition] = error
    return acknowledged.results


def _check_acknowledgements(acknowledgements: Iterable[Acknowledgement], renews: _Renewals) -> None:
    """Raise InvalidRequest for impossible ranges or types."""
    largest = RENEW if renews.known else RENEW - 1
    last_offset = -1
    for each in acknowledgements:
        types = each.types
        count = each.last_offset - each.first_offset + 1
        if (
            count < 1
            or each.first_offset < last_offset
            or not types
            or len(types) not in (1, count)
            or any(not GAP <= kind <= largest for kind in types)
            or (RENEW in types and not renews.announced)
        ):
            raise InvalidRequest("The acknowledged offsets or their types are not valid.")
        last_offset = each.last_offset


def _by_topic(answers: Iterable[tuple[TopicPartition, Any]], topic_class: Callable[..., T]) -> list[T]:
    """The partitions' answers in a struct for each topic."""
    topics: dict[UUID, list[Any]] = {}
    for (topic_id, _), data in answers:
        topics.setdefault(topic_id, []).append(data)
    return [topic_class(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()]


def _name_leader(
    node: Node,
    context: RequestContext,
    partition: TopicPartition,
    data: PartitionData | share_acknowledge_response.PartitionData,
    response: ShareFetchResponse | ShareAcknowledgeResponse,
) -> None:
    """Name the leader to a client that is at the wrong broker."""
    if data.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
        return
    topic = node.image.topics_by_id.get(partition[0])
    known = topic and topic.partitions.get(partition[1])
    if not known:
        return
    data.current_leader.leader_id = known.leader
    data.current_leader.leader_epoch = known.leader_epoch
    leader = node.image.brokers.get(known.leader)
    endpoint = leader and leader.endpoint(context.session.listener_name)
    if not leader or not endpoint or any(each.node_id == known.leader for each in response.node_endpoints):
        return
    module = share_fetch_response if isinstance(response, ShareFetchResponse) else share_acknowledge_response
    response.node_endpoints.append(
        module.NodeEndpoint(node_id=known.leader, host=endpoint.host, port=endpoint.port, rack=leader.rack)
    )


RAW_HANDLERS = {ApiKey.SHARE_FETCH: share_fetch}
HANDLERS = {ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge}
