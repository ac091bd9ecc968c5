"""Fetch (API key 1): versions 4 to 18, with sessions (KIP-227), topic ids (KIP-516) and waiting.

Partitions are read in the session's order until `max_bytes` is reached; the first one with data gives at
least one batch even if it is larger (KIP-74). A fetch offset in the middle of a batch returns the whole
batch. When less than `min_bytes` are there, nothing failed and time is left, the request waits on its
partitions: it is answered once there is more to read, or after `max_wait_ms`.

Consumers read below the high watermark, from the leader or, from v11 on, from any replica (KIP-392). With
RackAwareReplicaSelector the leader names a consumer with a rack id a replica there, and gives no records.

Followers are answered in replication/follower_fetch.py: they read up to the log's end. Only when a follower's
epochs agree with this log (core/replica/reading.py) does its fetch offset count as the end of its log: that
moves the high watermark, and answers producers that wait.

    v5   log start offset         v11  rack id                    v15  replica state (KIP-903)
    v7   sessions                 v12  flexible, diverging epoch  v16  node endpoints (KIP-951)
    v9   leader epoch fencing     v13  topic ids                  v18  replica's high watermark (KIP-1166)
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.broker.handlers.records.leader_hints import HINTED, leader_hint
from ottla.broker.network.connection import Reply
from ottla.broker.network.context import RequestContext
from ottla.broker.network.replies import frame_reply_in_parts
from ottla.broker.replication.partition import Partition
from ottla.core.replica.fetch_sessions import (
    NO_SESSION,
    FetchedPartition,
    FetchPlan,
    MixedTopicIds,
    PartitionKey,
    SessionNotFound,
    WrongSessionEpoch,
    move_served_to_end,
)
from ottla.core.replica.reading import EpochEnd, find_divergence
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.protocol import errors, single_partition_fetch
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.single_partition_fetch import SinglePartitionFetch
from ottla.storage.errors import LogCorruption, OffsetOutOfRange
from ottla.storage.segment import LogSlice

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

FIRST_VERSION_WITH_RACKS = 11
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
FIRST_VERSION_WITH_LEADER_HINTS = 16
READ_COMMITTED = 1
NO_EPOCH = -1


_RANDOM = random.SystemRandom()


def _random_session_id() -> int:
    """A fetch session id that a client can't guess."""
    return _RANDOM.randrange(1, 2**31)


def handle(node: Node, context: RequestContext, body: memoryview) -> Reply | asyncio.Future[Reply]:
    """Answer at once, or with a future when the request has to wait."""
    version = context.api_version
    request: FetchRequest | SinglePartitionFetch
    named: list[FetchedPartition] = []
    forgotten: list[PartitionKey] = []
    single = single_partition_fetch.decode(body, version)
    if single is not None:
        request = single
        if single.wanted is not None:
            named = [FetchedPartition(*single.wanted)]
    else:
        request, _ = FetchRequest.decode_prefix(body, version)
        named, forgotten = _partitions(request, by_id=version >= FIRST_VERSION_WITH_TOPIC_IDS)
    try:
        plan = node.fetch_sessions.plan(
            request.session_id,
            request.session_epoch,
            named,
            forgotten,
            uses_topic_ids=version >= FIRST_VERSION_WITH_TOPIC_IDS,
            now_ms=node.now_ms(),
            random_id=_random_session_id,
        )
    except SessionNotFound:
        return _session_error(node, context, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    except WrongSessionEpoch:
        return _session_error(node, context, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    except MixedTopicIds:
        return _session_error(node, context, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    if isinstance(request, FetchRequest):
        by_state = version >= FIRST_VERSION_WITH_REPLICA_STATE
        replica_id = request.replica_state.replica_id if by_state else request.replica_id
        if replica_id >= 0:
            epoch = request.replica_state.replica_epoch if by_state else NO_EPOCH
            keys = ([each.key for each in named], forgotten)
            return _handle_follower(node, context, request, plan, (replica_id, epoch), keys)
    if context.session.throttle_ms:  # for its request time: it gets nothing, as in Apache Kafka
        return _throttled_reply(node, context, plan)
    fetch = _Fetch(node, context, request, plan)
    fetch.find()
    return fetch.wait() if fetch.may_wait() else fetch.reply()


def _partitions(request: FetchRequest, *, by_id: bool) -> tuple[list[FetchedPartition], list[PartitionKey]]:
    """The partitions that a request names, and those that it wants no more."""
    named = [
        FetchedPartition(
            topic.topic_id if by_id else topic.topic,
            wanted.partition,
            wanted.fetch_offset,
            wanted.partition_max_bytes,
            wanted.current_leader_epoch,
            wanted.last_fetched_epoch,
            wanted.log_start_offset,
        )
        for topic in request.topics
        for wanted in topic.partitions
    ]
    forgotten: list[PartitionKey] = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    return named, forgotten


def _handle_follower(
    node: Node,
    context: RequestContext,
    request: FetchRequest,
    plan: FetchPlan,
    replica: tuple[int, int],
    keys: tuple[list[PartitionKey], list[PartitionKey]],
) -> Reply | asyncio.Future[Reply]:
    may = node.authorization
    if not may.allows(context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused = [(each, _failed(each.partition, code)) for each in plan.partitions]
        return _make_reply(node, context, plan, refused, failed=True)
    from ottla.broker.replication.follower_fetch import Answers, FollowerFetch

    node.client_quotas.exempt(context.session)
    context.session.is_replica = True
    node.partitions.follower_fetches[context.api_version] += 1

    def make_reply(answers: Answers, failed: bool) -> Reply:
        return _make_reply(node, context, plan, list(answers.values()), failed)

    return FollowerFetch(node, context, request, plan, replica, make_reply).handle(*keys)


def _session_error(node: Node, context: RequestContext, code: ErrorCode) -> Reply:
    node.partitions.refusals.count_fetch(None, code)
    response = FetchResponse(
        error_code=code, session_id=0, responses=[], throttle_time_ms=context.session.throttle_ms
    )
    return frame_reply_in_parts(ApiKey.FETCH, context.api_version, context.correlation_id, response)


class _Fetch:
    """One request under way: the records found for it, and the partitions that it waits on.

    Bytes are read when it is answered: one that waits for more holds none, and looks at sizes alone when it
    is woken. Fetches that had to wait may all be answered in one turn of the loop, so they share the room
    that is left (see answer_memory.py); every one of them gets a first batch.
    """

    __slots__ = (
        "_answers",
        "_context",
        "_future",
        "_min_bytes",
        "_node",
        "_only_from_leader",
        "_pieces",
        "_plan",
        "_request",
        "_timer",
        "failed",
        "found_bytes",
        "waitable",
    )

    def __init__(
        self,
        node: Node,
        context: RequestContext,
        request: FetchRequest | SinglePartitionFetch,
        plan: FetchPlan,
    ) -> None:
        self._node = node
        self._context = context
        self._request = request
        self._plan = plan
        self._min_bytes = request.min_bytes
        self._only_from_leader = context.api_version < FIRST_VERSION_WITH_RACKS
        self._answers: list[tuple[FetchedPartition, PartitionData]] = []
        # The slices to be read for the answers: (answer, its partition, its offset, the slice).
        self._pieces: list[tuple[PartitionData, Partition, int, LogSlice]] = []
        self._future: asyncio.Future[Reply] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.failed = False
        self.found_bytes = 0
        #: The partitions whose next append may complete this fetch.
        self.waitable: list[Partition] = []

    # -- waiting ------------------------------------------------------------------------------------

    def may_wait(self) -> bool:
        """Whether an append can still make the answer better."""
        satisfied = self.failed or self.found_bytes >= self._min_bytes
        return bool(self.waitable) and not satisfied and self._request.max_wait_ms > 0

    def wait(self) -> asyncio.Future[Reply]:
        """Answer after the next append that satisfies the request, or when its time is up."""
        loop = self._node.loop
        self._future = loop.create_future()
        self._future.add_done_callback(self._forget)
        self._timer = loop.call_later(self._request.max_wait_ms / 1000, self._time_is_up)
        for partition in self.waitable:
            partition.add_waiter(self._woken)
        return self._future

    def _woken(self) -> None:
        waited = self.waitable
        self.find()
        still_waits = self.may_wait()
        if still_waits and self.waitable == waited:
            return
        for partition in waited:
            partition.remove_waiter(self._woken)
        if not still_waits:
            self._complete()
            return
        for partition in self.waitable:
            partition.add_waiter(self._woken)

    def _time_is_up(self) -> None:
        self.find()
        self._complete()

    def _complete(self) -> None:
        if self._future is None or self._future.done():
            return
        connection = self._context.session.connection
        if connection is None:
            self._future.set_result(self.reply())
            return
        answers = connection.answers
        if self.found_bytes > answers.room_bytes:
            self.find(answers.room_bytes)
        self._future.set_result(self.reply())
        answers.expect(self.found_bytes)

    def _forget(self, _: asyncio.Future[Reply]) -> None:
        """The request is answered, or the client has gone."""
        if self._timer is not None:
            self._timer.cancel()
        for partition in self.waitable:
            partition.remove_waiter(self._woken)

    # -- reading ------------------------------------------------------------------------------------

    def find(self, most_bytes: int = sys.maxsize) -> None:
        """Look for records in every partition of the plan, from its fetch offset on."""
        self._answers = []
        self._pieces = []
        self.failed = False
        self.found_bytes = 0
        self.waitable = []
        left = min(self._request.max_bytes, self._node.replication.settings.fetch_max_bytes, most_bytes)
        if self._node.client_quotas.limits_fetch:
            left = min(left, self._node.client_quotas.most_fetched_at_once(self._context))
            self._min_bytes = min(self._min_bytes, left)
        by_id = self._context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        for wanted in self._plan.partitions:
            before = self.found_bytes
            answer = self._find_in_partition(wanted, left, by_id)
            if answer is None:
                continue
            self._answers.append((wanted, answer))
            left -= self.found_bytes - before
            self.failed = (
                self.failed
                or answer.error_code != 0
                or answer.diverging_epoch.epoch >= 0
                or answer.preferred_read_replica >= 0
            )

    def _find_in_partition(self, wanted: FetchedPartition, left: int, by_id: bool) -> PartitionData | None:
        """The partition's answer; None where a session has no news."""
        partitions = self._node.partitions
        try:
            if self._node.authorization.enforced:
                self._require_readable(wanted.topic)
            if not self._only_from_leader:
                partition = partitions.replica(wanted.topic, wanted.partition)
            elif by_id:
                partition = partitions.partition_by_id(wanted.topic, wanted.partition)  # type: ignore[arg-type]
            else:
                partition = partitions.partition(wanted.topic, wanted.partition)  # type: ignore[arg-type]
            leader_epoch = wanted.current_leader_epoch
            if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
                partition.check_leader_epoch(leader_epoch)
            diverging = self._compare(partition, wanted) if wanted.last_fetched_epoch >= 0 else None
        except KafkaError as error:
            return _failed(wanted.partition, error.code)
        committed = self._request.isolation_level == READ_COMMITTED
        preferred = self._node.replication.preferred
        if self._plan.incremental and diverging is None and not preferred.selects_by_rack:
            high_watermark, stable = partition.high_watermark, partition.last_stable_offset
            upper = stable if committed else high_watermark
            start = partition.log.log_start_offset
            if wanted.fetch_offset == upper and _is_known(wanted, high_watermark, stable, start):
                self.waitable.append(partition)
                return None
        data = self._describe(partition, committed)
        if diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
            return data
        if self._request.rack_id and preferred.selects_by_rack:
            node_id = preferred.preferred_replica(partition, self._request.rack_id, wanted.fetch_offset)
            if node_id is not None:
                data.preferred_read_replica = node_id
                return data
        upper = data.last_stable_offset if committed else data.high_watermark
        self._find_in_log(partition, wanted, data, left, upper)
        return data

    def _require_readable(self, topic: str | UUID) -> None:
        """Raise TopicAuthorizationFailed if the client may not read the topic.

        Asked each time the fetch is woken: a removed ACL counts for those that wait. An id that is not known
        is left to the search for the partition.
        """
        if isinstance(topic, UUID):
            known = self._node.image.topics_by_id.get(topic)
            if known is None:
                return
            topic = known.name
        may = self._node.authorization
        if not may.allows(self._context, AclOperation.READ, ResourceType.TOPIC, topic):
            raise errors.TopicAuthorizationFailed()

    def _compare(self, partition: Partition, wanted: FetchedPartition) -> EpochEnd | None:
        """The offset at which the reader's log parts from this one, None if it does not.

        Raises OffsetOutOfRange.
        """
        if wanted.fetch_offset < partition.log.log_start_offset:
            raise errors.OffsetOutOfRange()
        own = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
        return find_divergence(wanted.last_fetched_epoch, wanted.fetch_offset, own)

    def _describe(self, partition: Partition, committed: bool) -> PartitionData:
        return PartitionData(
            partition_index=partition.index,
            error_code=0,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=[] if committed else None,
            records=b"",
        )

    def _find_in_log(
        self, partition: Partition, wanted: FetchedPartition, data: PartitionData, left: int, upper: int
    ) -> None:
        """Find the log's batches below `upper` that go into `data`."""
        stored = partition.log
        offset = wanted.fetch_offset
        partition.fetches += 1
        self.waitable.append(partition)
        if offset >= upper and stored.log_start_offset <= offset <= stored.log_end_offset:
            return  # the common case of a consumer that has read everything
        if left <= 0 and self.found_bytes > 0:
            return
        try:
            piece = stored.read(
                offset,
                max(0, min(wanted.max_bytes, left)),
                upper_offset=upper,
                at_least_one_batch=self.found_bytes == 0,
            )
        except OffsetOutOfRange:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
        except (OSError, LogCorruption) as problem:
            self._report_unreadable(partition, data, problem)
        else:
            if piece.size_bytes:
                self.found_bytes += piece.size_bytes
                self._pieces.append((data, partition, offset, piece))

    def _report_unreadable(
        self, partition: Partition, data: PartitionData, problem: OSError | LogCorruption
    ) -> None:
        text = f"read failed topic={partition.topic} partition={partition.index} error={problem}"
        self._node.server.flood_log.warn("read failed", text)
        data.error_code = ErrorCode.KAFKA_STORAGE_ERROR

    # -- answering ----------------------------------------------------------------------------------

    def reply(self) -> Reply:
        """The response: everything, or within a session the changes; nothing if the client is throttled."""
        node, context = self._node, self._context
        quotas = node.client_quotas
        limited = quotas.limits_fetch
        if limited and not quotas.admit_fetch(context, self.found_bytes):
            return _throttled_reply(node, context, self._plan)
        for data, partition, offset, piece in self._pieces:
            try:
                data.records = partition.read_slice(piece)
                partition.fetched_bytes += piece.size_bytes
                if data.aborted_transactions is not None:
                    stored = partition.log
                    data.aborted_transactions = [
                        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
                        for each in stored.aborted_transactions(offset, stored.upper_bound_of(piece))
                    ]
            except (OSError, LogCorruption) as problem:
                data.records, data.aborted_transactions = b"", None
                self._report_unreadable(partition, data, problem)
                self.failed = True
        reply = _make_reply(node, context, self._plan, self._answers, self.failed)
        if limited and reply is not None:
            quotas.record_fetch_overhead(context, sum(map(len, reply)) - self.found_bytes)
        return reply


def _failed(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=b"",
    )


def _throttled_reply(node: Node, context: RequestContext, plan: FetchPlan) -> Reply:
    """An empty answer (KIP-219), after which the session is as before; a new one was not begun."""
    session_id = plan.session_id
    if plan.session is not None and not plan.incremental:
        node.fetch_sessions.drop(session_id)
        session_id = NO_SESSION
    response = FetchResponse(
        error_code=0, session_id=session_id, responses=[], throttle_time_ms=context.session.throttle_ms
    )
    return frame_reply_in_parts(ApiKey.FETCH, context.api_version, context.correlation_id, response)


def _make_reply(
    node: Node,
    context: RequestContext,
    plan: FetchPlan,
    answers: list[tuple[FetchedPartition, PartitionData]],
    failed: bool,
) -> Reply:
    topics: dict[object, FetchableTopicResponse] = {}
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    served: list[PartitionKey] = []
    throttle_ms = context.session.throttle_ms
    if by_id and not failed and len(answers) <= 1 and not throttle_ms:
        reply = _make_short_reply(context, plan, answers)
        if reply is not None:
            return reply
    if failed:
        for wanted, data in answers:
            if data.error_code:
                node.partitions.refusals.count_fetch(wanted.topic, data.error_code)
    for wanted, data in answers:
        if plan.session is not None:
            if plan.incremental and not _has_news(wanted, data):
                continue
            _remember(wanted, data)
            if data.records:
                served.append(wanted.key)
        topic = topics.get(wanted.topic)
        if topic is None:
            topic = FetchableTopicResponse(partitions=[])
            if by_id:
                topic.topic_id = wanted.topic  # type: ignore[assignment]
            else:
                topic.topic = wanted.topic  # type: ignore[assignment]
            topics[wanted.topic] = topic
        topic.partitions.append(data)
    if plan.session is not None and served:
        move_served_to_end(plan.session, served)
    response = FetchResponse(
        error_code=0,
        session_id=plan.session_id,
        responses=list(topics.values()),
        throttle_time_ms=throttle_ms,
    )
    if failed and context.api_version >= FIRST_VERSION_WITH_LEADER_HINTS:
        _name_leaders(node, context, answers, response)
    return frame_reply_in_parts(ApiKey.FETCH, context.api_version, context.correlation_id, response)


def _make_short_reply(
    context: RequestContext, plan: FetchPlan, answers: list[tuple[FetchedPartition, PartitionData]]
) -> Reply:
    """The reply with one partition, or with none, written by hand; None if it needs more fields."""
    if not answers:
        return (single_partition_fetch.encode_empty_answer(context.correlation_id, plan.session_id),)
    wanted, data = answers[0]
    if data.aborted_transactions or not isinstance(wanted.topic, UUID):
        return None
    if plan.session is not None:
        if plan.incremental and not _has_news(wanted, data):
            return (single_partition_fetch.encode_empty_answer(context.correlation_id, plan.session_id),)
        _remember(wanted, data)
        if data.records:
            move_served_to_end(plan.session, [wanted.key])
    return single_partition_fetch.encode_answer(
        context.correlation_id,
        plan.session_id,
        wanted.topic,
        data.partition_index,
        (data.high_watermark, data.last_stable_offset, data.log_start_offset),
        data.records or b"",
        no_transaction_aborted=data.aborted_transactions is not None,
    )


def _remember(wanted: FetchedPartition, data: PartitionData) -> None:
    """Note in the session what its client is told."""
    wanted.sent_high_watermark = data.high_watermark
    wanted.sent_last_stable_offset = data.last_stable_offset
    wanted.sent_log_start_offset = data.log_start_offset


def _name_leaders(
    node: Node,
    context: RequestContext,
    answers: list[tuple[FetchedPartition, PartitionData]],
    response: FetchResponse,
) -> None:
    """Name the leader to a client that took another broker for it."""
    named: dict[int, NodeEndpoint] = {}
    for wanted, data in answers:
        if data.error_code not in HINTED:
            continue
        hint = leader_hint(node, context, wanted.topic, wanted.partition)
        if hint is not None:
            data.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
            if hint.address is not None:
                named[hint.leader_id] = NodeEndpoint(**hint.address._asdict())
    response.node_endpoints = list(named.values())


def _is_known(
    wanted: FetchedPartition, high_watermark: int, last_stable_offset: int, log_start_offset: int
) -> bool:
    """Whether the session's client was told these offsets."""
    return (
        wanted.sent_high_watermark == high_watermark
        and wanted.sent_last_stable_offset == last_stable_offset
        and wanted.sent_log_start_offset == log_start_offset
    )


def _has_news(wanted: FetchedPartition, data: PartitionData) -> bool:
    return bool(
        data.records
        or data.error_code
        or data.diverging_epoch.epoch >= 0
        or data.preferred_read_replica >= 0
        or not _is_known(wanted, data.high_watermark, data.last_stable_offset, data.log_start_offset)
    )


RAW_HANDLERS = {ApiKey.FETCH: handle}
