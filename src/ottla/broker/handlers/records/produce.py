"""Produce (API key 0): versions 3 to 13, advertised from 0 and refused below 3 (KAFKA-18659).

Each partition's records must be one batch of magic 2 (KIP-98). The batch is checked by its header and its
CRC, its base offset and leader epoch are patched in place, and its bytes are appended as they are; records
are looked at only where a topic asks for it (compacted topics refuse keyless records, LogAppendTime topics
stamp the batch). Three kinds of batches wait: one that begins a transaction in its partition for the
transaction coordinator; one with more records to look at than the event loop can bear for a thread, and one
of a topic that asks for schemas for their registry (`HeavyBatch` both).

    v3   transactional id            v9   flexible
    v5   log start offset            v10  current leader on NOT_LEADER_OR_FOLLOWER (KIP-951)
    v7   zstd                        v12  transactions v2 (KIP-890)
    v8   errors of single records    v13  topic ids (KIP-516)

acks=0 has no answer; a failure there closes the connection, the only sign that the client understands.
acks=1 and acks=all answer once the batch is in the log and, for all, below the high watermark; with one
replica that is the same moment. With several, acks=all is refused before the append while fewer than
min.insync.replicas are in sync (NOT_ENOUGH_REPLICAS), and the answer waits for the followers' next fetches:
for `timeout_ms` at most (REQUEST_TIMED_OUT), or until this broker leads no more; such a batch may be
committed all the same. The connection's next request waits too, as in Kafka.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from ottla.broker.coordinators.transaction_verification import (
    NOT_TRANSACTIONAL,
    NamedPartition,
    TransactionalAppends,
    Verified,
    find_transactional_appends,
    has_transactional_batches,
)
from ottla.broker.handlers.records.leader_hints import HINTED, leader_hint
from ottla.broker.network.connection import CloseConnection, Reply
from ottla.broker.network.context import RequestContext
from ottla.broker.network.replies import frame_reply
from ottla.broker.network.turns import PARTS_A_LOOK, SLICE_SECONDS
from ottla.broker.replication.produced_appends import ACKS_ALL, Appended, CheckedBatch, Uncommitted
from ottla.core.decisions.topic_names import ADMIN_CLIENT_ID, AUDIT_TOPIC, is_internal
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.protocol import single_partition_produce
from ottla.protocol.apis import ApiKey
from ottla.protocol.batch_validation import HeavyBatch, RejectedRecords, RejectedTimestamps
from ottla.protocol.errors import (
    ErrorCode,
    KafkaError,
    ProtocolError,
    TransactionalIdAuthorizationFailed,
)
from ottla.protocol.messages.produce_request import ProduceRequest
from ottla.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.schema import Buffer
from ottla.protocol.single_partition_produce import SinglePartition

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

Outcome: TypeAlias = Appended | Uncommitted | PartitionProduceResponse

VALID_ACKS = (-1, 0, 1)
FIRST_VERSION_SERVED = 3
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_LEADER_HINTS = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13


def handle(node: Node, context: RequestContext, body: memoryview) -> Reply | Awaitable[Reply]:
    """Append what the request carries and answer."""
    version = context.api_version
    if version < FIRST_VERSION_SERVED:
        raise CloseConnection(f"Produce v{version} carries a message format that Kafka 4 no longer takes")
    if node.client_quotas.limits_produce:
        node.client_quotas.record_produce(context, len(body))
    single = single_partition_produce.decode(body, version)
    if single is not None:
        return _handle_single(node, context, single)
    request, _ = ProduceRequest.decode_prefix(body, version)
    return _Produce(node, context, request).begin()


class _Produce:
    """One request under way, with the outcomes of its partitions so far, in the request's order."""

    __slots__ = ("_context", "_loop", "_node", "_outcomes", "_request", "_verified")

    def __init__(self, node: Node, context: RequestContext, request: ProduceRequest) -> None:
        self._node = node
        self._loop = node.loop
        self._context = context
        self._request = request
        self._verified: Mapping[NamedPartition, Verified] = NOT_TRANSACTIONAL
        self._outcomes: list[Outcome] = []

    def begin(self) -> Reply | Awaitable[Reply]:
        """Verify transactional batches, append all, and answer; at once where no batch has to wait."""
        node, request = self._node, self._request
        unauthorized: Collection[str] = ()
        if node.authorization.enforced:
            if not _may_write_as(node, self._context, request):
                error = TransactionalIdAuthorizationFailed()
                self._outcomes = [_refused(part.partition, error) for part in self._parts()]
                return self._answer()
            unauthorized = _unauthorized_topics(node, self._context, request)
        appends = find_transactional_appends(node, request, self._context.api_version, unauthorized)
        if appends is None:
            return self._append_all()
        if not appends.unverified:
            self._verified = appends.outcome
            return self._append_all()
        for topic in request.topic_data:
            for data in topic.partition_data:
                if data.records is not None:  # the bytes are in a buffer that is read into again meanwhile
                    data.records = _copied(data.records)
        return self._append_verified(appends)

    async def _append_verified(self, appends: TransactionalAppends) -> Reply:
        self._verified = await appends.verify()
        reply = self._append_all()
        return await reply if inspect.isawaitable(reply) else reply

    def _append_all(self) -> Reply | Awaitable[Reply]:
        node, context, loop = self._node, self._context, self._loop
        outcomes, verified = self._outcomes, self._verified
        slice_end = loop.time() + SLICE_SECONDS
        for part in self._parts():
            try:
                outcome = _append(node, context, part, verified.get((part.topic, part.partition)))
            except HeavyBatch:
                return self._append_rest()
            outcomes.append(outcome)
            if not len(outcomes) % PARTS_A_LOOK and loop.time() >= slice_end:
                return self._append_rest()
        if self._request.acks == ACKS_ALL and any(type(each) is Uncommitted for each in outcomes):
            return self._answer_committed()
        return self._answer()

    def _append_rest(self) -> Awaitable[Reply]:
        """Append the batches without an outcome, while other requests get their turns of the event loop."""
        # The bytes are in a buffer that is read into again meanwhile: copied before anything awaits.
        rest = [
            part if part.records is None else part._replace(records=_copied(part.records))
            for part in islice(self._parts(), len(self._outcomes), None)
        ]
        return self._append_copies(rest)

    async def _append_copies(self, rest: Sequence[SinglePartition]) -> Reply:
        loop = self._loop
        slice_end = loop.time()
        for part in rest:
            if loop.time() >= slice_end:
                await asyncio.sleep(0)
                slice_end = loop.time() + SLICE_SECONDS
            verdict = self._verified.get((part.topic, part.partition))
            self._outcomes.append(await _append_patiently(self._node, self._context, part, verdict))
        return await self._answer_committed()

    async def _answer_committed(self) -> Reply:
        """The answer once all that was appended is committed, if the request wants that."""
        outcomes = self._outcomes
        if self._request.acks == ACKS_ALL:
            deadline = self._loop.time() + self._request.timeout_ms / 1000
            for place, outcome in enumerate(outcomes):
                if isinstance(outcome, Uncommitted):
                    left_ms = max(0, int((deadline - self._loop.time()) * 1000))
                    code = await outcome.partition.committed(outcome.end_offset, left_ms)
                    outcomes[place] = _acknowledged(outcome, code)
        return self._answer()

    def _parts(self) -> Iterator[SinglePartition]:
        request = self._request
        by_id = self._context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        acks, timeout_ms = request.acks, request.timeout_ms
        for topic_data in request.topic_data:
            topic = topic_data.topic_id if by_id else topic_data.name
            for data in topic_data.partition_data:
                yield tuple.__new__(SinglePartition, (acks, topic, data.index, data.records, timeout_ms))

    def _answer(self) -> Reply:
        """The answer with an outcome for each partition of the request, in its order."""
        request, context = self._request, self._context
        response = ProduceResponse(responses=[], throttle_time_ms=context.session.throttle_ms)
        failures = 0
        left = iter(self._outcomes)
        for topic_data in request.topic_data:
            topic_response = TopicProduceResponse(
                name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=[]
            )
            response.responses.append(topic_response)
            for data in topic_data.partition_data:
                outcome = next(left)
                if isinstance(outcome, Uncommitted):
                    outcome = outcome.appended
                if isinstance(outcome, Appended):
                    outcome = _succeeded(data.index, outcome)
                else:
                    failures += 1
                    topic = topic_data.name or topic_data.topic_id
                    self._node.partitions.refusals.count_produce(topic, outcome.error_code)
                topic_response.partition_responses.append(outcome)
        if request.acks == 0:
            return _unanswered(failures)
        if failures:
            _name_leaders(self._node, context, response)
        return frame_reply(ApiKey.PRODUCE, context.api_version, context.correlation_id, response)


def _may_write_as(node: Node, context: RequestContext, request: ProduceRequest) -> bool:
    """Whether the client may write with the transactional id, if the request needs one that it has."""
    transactional_id = request.transactional_id
    if transactional_id is None or not has_transactional_batches(request):
        return True
    return node.authorization.allows(
        context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _unauthorized_topics(node: Node, context: RequestContext, request: ProduceRequest) -> Collection[str]:
    """The topics that the client may not write to: no coordinator is asked about them."""
    if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        known = node.image.topics_by_id
        names = [known[topic.topic_id].name for topic in request.topic_data if topic.topic_id in known]
    else:
        names = [topic.name for topic in request.topic_data]
    return node.authorization.refused(context, AclOperation.WRITE, ResourceType.TOPIC, names)


def _acknowledged(outcome: Uncommitted, code: ErrorCode) -> Appended | PartitionProduceResponse:
    return outcome.appended if code is ErrorCode.NONE else _failed(outcome.partition.index, code, None)


async def _append_patiently(
    node: Node,
    context: RequestContext,
    part: SinglePartition,
    verified: Verified | None = None,
) -> Outcome:
    """Append one partition's batch, checked in a thread if it is heavy; the bytes must be the caller's."""
    _, topic, index, records, _ = part
    try:
        return _append(node, context, part, verified)
    except HeavyBatch:
        assert records is not None
    partitions = node.partitions
    zstd_allowed = context.api_version >= FIRST_VERSION_WITH_ZSTD
    try:
        if isinstance(topic, UUID):
            partition = partitions.partition_by_id(topic, index)
        else:
            partition = partitions.partition(topic, index)
        checked = await node.produced_appends.check_produced(partition, records, zstd_allowed=zstd_allowed)
    except (KafkaError, ProtocolError) as error:
        return _refused(index, error)
    if partition.topic_id not in node.image.topics_by_id:
        # A topic of the same name may have been made meanwhile: the batch was checked by the old one's rules.
        by_id = isinstance(topic, UUID)
        gone = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _failed(index, gone, None)
    return _append(node, context, part, verified, checked)


def _copied(records: Buffer) -> memoryview:
    return memoryview(bytearray(records))


def _handle_single(node: Node, context: RequestContext, single: SinglePartition) -> Reply | Awaitable[Reply]:
    """Append and answer the commonest request: its success does without the message classes."""
    try:
        outcome = _append(node, context, single)
    except HeavyBatch:
        assert single.records is not None
        return _handle_single_patiently(node, context, single._replace(records=_copied(single.records)))
    if isinstance(outcome, Uncommitted):
        if single.acks == ACKS_ALL:
            return _answer_single_committed(node, context, single, outcome)
        outcome = outcome.appended
    return _answer_single(node, context, single, outcome)


def _answer_single_committed(
    node: Node, context: RequestContext, single: SinglePartition, uncommitted: Uncommitted
) -> asyncio.Future[Reply]:
    answer: asyncio.Future[Reply] = node.loop.create_future()

    def done(code: ErrorCode) -> None:
        if not answer.done():
            answer.set_result(_answer_single(node, context, single, _acknowledged(uncommitted, code)))

    waiting = uncommitted.partition.when_committed(uncommitted.end_offset, single.timeout_ms, done)
    answer.add_done_callback(lambda _: waiting.cancel())
    return answer


async def _handle_single_patiently(node: Node, context: RequestContext, single: SinglePartition) -> Reply:
    outcome = await _append_patiently(node, context, single)
    if isinstance(outcome, Uncommitted):
        code = ErrorCode.NONE
        if single.acks == ACKS_ALL:
            code = await outcome.partition.committed(outcome.end_offset, single.timeout_ms)
        outcome = _acknowledged(outcome, code)
    return _answer_single(node, context, single, outcome)


def _answer_single(
    node: Node,
    context: RequestContext,
    single: SinglePartition,
    outcome: Appended | PartitionProduceResponse,
) -> Reply:
    acks, topic, index, _, _ = single
    if not isinstance(outcome, Appended):
        node.partitions.refusals.count_produce(topic, outcome.error_code)
    if acks == 0:
        return _unanswered(not isinstance(outcome, Appended))
    if isinstance(outcome, Appended) and not context.session.throttle_ms:
        return (single_partition_produce.encode_answer(topic, index, context.correlation_id, *outcome),)
    if isinstance(outcome, Appended):
        outcome = _succeeded(index, outcome)
    topic_response = TopicProduceResponse(partition_responses=[outcome])
    if isinstance(topic, UUID):
        topic_response.topic_id = topic
    else:
        topic_response.name = topic
    response = ProduceResponse(responses=[topic_response], throttle_time_ms=context.session.throttle_ms)
    _name_leaders(node, context, response)
    return frame_reply(ApiKey.PRODUCE, context.api_version, context.correlation_id, response)


def _name_leaders(node: Node, context: RequestContext, response: ProduceResponse) -> None:
    """Name the leader to a client that took another broker for it."""
    if context.api_version < FIRST_VERSION_WITH_LEADER_HINTS:
        return
    named: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code not in HINTED:
                continue
            hint = leader_hint(node, context, topic.name or topic.topic_id, partition.index)
            if hint is not None:
                partition.current_leader = LeaderIdAndEpoch(
                    leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
                )
                if hint.address is not None:
                    named[hint.leader_id] = NodeEndpoint(**hint.address._asdict())
    response.node_endpoints = list(named.values())


def _unanswered(failures: int) -> Reply:
    if failures:
        raise CloseConnection("a produce with acks=0 failed, closing is the only way to say so")
    return None


def _append(
    node: Node,
    context: RequestContext,
    part: SinglePartition,
    verified: Verified | None = None,
    checked: CheckedBatch | None = None,
) -> Outcome:
    """Append one partition's batch. Returns where it landed, or the answer with its error.

    Raises HeavyBatch.
    """
    acks, topic, index, records, _ = part
    if isinstance(topic, UUID):
        known = node.image.topics_by_id.get(topic)
        if known is None:
            return _failed(index, ErrorCode.UNKNOWN_TOPIC_ID, None)
        topic = known.name
    if node.authorization.enforced and not node.authorization.allows(
        context, AclOperation.WRITE, ResourceType.TOPIC, topic
    ):
        return _failed(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    if acks not in VALID_ACKS:
        known = node.image.topics.get(topic)
        exists = known is not None and index in known.partitions
        code = ErrorCode.INVALID_REQUIRED_ACKS if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _failed(index, code, None)
    try:
        partition = node.partitions.partition(topic, index)
        if verified is not None and verified.error is not None:
            return _failed(index, verified.error, verified.message)
        if is_internal(topic) and not _may_write_internal(node, context, topic):
            return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is the cluster's own")
        zstd_allowed = context.api_version >= FIRST_VERSION_WITH_ZSTD
        if verified is None:
            return node.produced_appends.append_produced(
                partition, records, zstd_allowed=zstd_allowed, checked=checked, acks=acks
            )
        return node.produced_appends.append_produced(
            partition,
            records,
            zstd_allowed=zstd_allowed,
            verification=verified.verification,
            checked=checked,
            acks=acks,
        )
    except (KafkaError, ProtocolError) as error:
        return _refused(index, error)
    except OSError as problem:
        # A full disk refuses every request: logged once a second.
        text = f"append failed topic={topic} partition={index} error={problem}"
        node.server.flood_log.warn("append failed", text)
        return _failed(index, ErrorCode.KAFKA_STORAGE_ERROR, str(problem))


def _may_write_internal(node: Node, context: RequestContext, topic: str) -> bool:
    """Kafka's rule goes by the client's id. Into the audit log nodes and super users may write alone."""
    if context.client_id != ADMIN_CLIENT_ID:
        return False
    return topic != AUDIT_TOPIC or node.authorization.allows_unnamed(
        context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    )


def _refused(index: int, error: KafkaError | ProtocolError) -> PartitionProduceResponse:
    """The answer for a refused batch; the records that are wrong are named."""
    if isinstance(error, (RejectedRecords, RejectedTimestamps)):
        response = _failed(index, error.code, str(error))
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=each.message)
            for each in error.record_errors
        ]
        return response
    if isinstance(error, KafkaError):
        return _failed(index, error.code, str(error) or None)
    return _failed(index, ErrorCode.CORRUPT_MESSAGE, str(error))


def _succeeded(index: int, appended: Appended) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=appended.log_start_offset,
    )


def _failed(index: int, code: ErrorCode, message: str | None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        error_message=message,
    )


RAW_HANDLERS = {ApiKey.PRODUCE: handle}
