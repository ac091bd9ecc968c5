"""A simulated broker: its life in the cluster, the partitions it leads and follows, requests of clients.

The order of steps is that of the real broker in `broker/controller` and `broker/replication`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla.core.image.features import SUPPORTED_FEATURES
from ottla.core.image.image import MetadataDelta, PartitionImage, TopicImage
from ottla.core.replica.follower import (
    AdvanceLogStart,
    AppendFetched,
    AskOffsets,
    AwaitMetadata,
    FetchAnswer,
    FetchPosition,
    PartitionFollower,
    RetryLater,
    StartOver,
    Truncate,
)
from ottla.core.replica.leader import InSyncUpdate, PartitionLeader
from ottla.core.replica.reading import check_leader_epoch, find_divergence
from ottla.protocol.batch_validation import BatchRules, validate_produced
from ottla.protocol.errors import ErrorCode, KafkaError, OffsetOutOfRange
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ottla.protocol.record_batch import BatchHeader, check_crc, iterate_headers, patch_base_offset_and_epoch
from ottla.protocol.schema import Message
from ottla.storage.producer_states import ProducerStates
from simulation.controller_node import Refused
from simulation.quorum_node import CONTROLLER_SERVICE
from simulation.wire import (
    BROKER_SERVICE,
    ConsumeAnswer,
    Consumed,
    FetchAsked,
    Fetched,
    MetadataAnswer,
    MetadataAsked,
    Offsets,
    OffsetsAsked,
    PartitionKey,
    PartitionLocation,
    ProduceAnswer,
    Produced,
    ProducerIdAnswer,
    ProducerIdAsked,
)
from simulation.world.disk import SimulatedLog

if TYPE_CHECKING:
    from simulation.node import Node
    from simulation.world.network import Reply as Answer

NEVER_MS = 1 << 40
_UNKNOWN = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
CLEAN_SHUTDOWN = "clean-shutdown"
HIGH_WATERMARKS = "high-watermarks"
RULES = BatchRules(timestamp_after_max_ms=NEVER_MS)


class Replica:
    """A partition's replica on this broker: its log, and the broker's role."""

    __slots__ = (
        "append_waiters",
        "follower",
        "high_watermark_before",
        "index",
        "key",
        "leader",
        "log",
        "not_before_ms",
        "producers",
        "told",
        "topic",
        "waiters",
    )

    def __init__(self, topic: TopicImage, index: int, log: SimulatedLog, high_watermark: int) -> None:
        self.topic = topic.name
        self.key: PartitionKey = (topic.topic_id, index)
        self.index = index
        self.log = log
        self.producers = ProducerStates(NEVER_MS)
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        self.high_watermark_before = high_watermark
        self.not_before_ms = 0
        self.told = (-1, -1)
        """The high watermark and log end that waiting fetches know."""
        self.append_waiters: list[tuple[int, int, Answer]] = []
        """(end offset, base offset, answer) of waiting acks=all requests."""
        self.waiters: list[Callable[[], None]] = []
        self.replay()

    def replay(self) -> None:
        """Restore the producers' states from the log."""
        self.producers.clear()
        for header, _ in self.log.batches(self.log.log_start_offset):
            if header.producer_id >= 0:
                self.producers.update(header)

    @property
    def high_watermark(self) -> int:
        """The offset up to which the partition is committed, as far as this broker knows."""
        if self.leader is not None:
            return self.leader.high_watermark
        if self.follower is not None:
            return self.follower.high_watermark
        return self.high_watermark_before


class BrokerNode:
    """One life of a broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._host = node.host
        self._settings = node.settings
        self.broker_epoch = -1
        self.fenced = True
        self.wanted_shutdown = False
        self.stopped = node.host.promise()
        self.incarnation_id = UUID(int=node.host.scheduler.random.getrandbits(128), version=4)
        self.replicas: dict[PartitionKey, Replica] = {}
        self._opened = False
        self._has_roles = False
        self._fetchers: dict[int, Any] = {}
        self._fetcher_naps: dict[int, Any] = {}
        self._producer_ids: tuple[int, int] = (0, 0)

    # -- life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Register and serve."""
        self._host.spawn("lifecycle", self._live())

    async def _live(self) -> None:
        node, host, settings = self._node, self._host, self._settings
        clean = node.disk.read(CLEAN_SHUTDOWN)
        node.disk.remove(CLEAN_SHUTDOWN)
        host.step()
        while node.quorum.quorum.high_watermark < 0:
            await host.sleep(50)
        await node.controller.wait_for(node.quorum.quorum.high_watermark - 1)
        self._open()
        while self.broker_epoch < 0:
            answer = await self.ask_controller(self._registration(-1 if clean is None else clean))
            if isinstance(answer, BrokerRegistrationResponse) and not answer.error_code:
                self.broker_epoch = answer.broker_epoch
            else:
                await host.sleep(settings.retry_ms)
        node.observer.note(node, "registered", self.broker_epoch)
        await node.controller.wait_for(self.broker_epoch)
        self._take_roles()
        host.spawn("background", self._background())
        # Asks to be unfenced once it has applied its own registration.
        host.spawn("heartbeats", self._heartbeats())

    def _registration(self, previous_epoch: int) -> BrokerRegistrationRequest:
        node = self._node
        return BrokerRegistrationRequest(
            broker_id=node.node_id,
            cluster_id=node.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[Listener(name="PLAINTEXT", host=node.host.name, port=9092, security_protocol=0)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=None,
            is_migrating_zk_broker=False,
            log_dirs=[node.directory_id],
            previous_broker_epoch=previous_epoch,
        )

    async def _heartbeats(self) -> None:
        host, settings = self._host, self._settings
        while True:
            caught_up = self._node.controller.image.last_offset >= self.broker_epoch
            answer = await self.ask_controller(
                BrokerHeartbeatRequest(
                    broker_id=self._node.node_id,
                    broker_epoch=self.broker_epoch,
                    current_metadata_offset=self._node.controller.image.last_offset,
                    want_fence=not caught_up,
                    want_shut_down=self.wanted_shutdown,
                    offline_log_dirs=[],
                ),
                settings.heartbeat_interval_ms,
            )
            if isinstance(answer, BrokerHeartbeatResponse) and not answer.error_code:
                self.fenced = answer.is_fenced
                if answer.should_shut_down and self.wanted_shutdown:
                    self.stopped.resolve(True)
                    return
                busy = self.fenced or self.wanted_shutdown
                await host.sleep(settings.heartbeat_interval_ms / (10 if busy else 1))
            elif isinstance(answer, Refused) and answer.code in _UNKNOWN:
                await self._register_anew()
            else:
                await host.sleep(settings.retry_ms)

    async def _register_anew(self) -> None:
        """The controller has another registration, perhaps a late one of an earlier life, or none."""
        if self.wanted_shutdown:
            await self._host.sleep(self._settings.retry_ms)
            return
        answer = await self.ask_controller(self._registration(self.broker_epoch))
        if isinstance(answer, BrokerRegistrationResponse) and not answer.error_code:
            self.broker_epoch = answer.broker_epoch
            await self._node.controller.wait_for(self.broker_epoch)
        else:
            await self._host.sleep(self._settings.retry_ms)

    def write_clean_shutdown(self) -> None:
        """The last step of a clean stop: sync everything, then write the marker."""
        disk = self._node.disk
        for replica in self.replicas.values():
            replica.log.sync_now()
        self._checkpoint(sync=True)
        self._host.step()
        disk.write(CLEAN_SHUTDOWN, self.broker_epoch, sync=True)

    async def _background(self) -> None:
        """Check in-sync sets, sync logs now and then, checkpoint high watermarks."""
        rounds = 0
        while True:
            await self._host.sleep(self._settings.lag_time_max_ms / 2)
            rounds += 1
            now_ms = self._host.steady_ms
            for replica in list(self.replicas.values()):
                if replica.leader is not None:
                    self._ask_for(replica, replica.leader.on_tick(now_ms))
                    self._after_progress(replica)
            if rounds % 2 == 0:
                self._checkpoint(sync=False)
            if rounds % 3 == 0:
                for replica in self.replicas.values():
                    if self._host.scheduler.chance(0.3):
                        replica.log.sync_now()

    def _checkpoint(self, *, sync: bool) -> None:
        marks = {key: replica.high_watermark for key, replica in self.replicas.items()}
        self._node.disk.write(HIGH_WATERMARKS, marks, sync=sync)

    async def ask_controller(self, request: Message, timeout_ms: float = 2000) -> Any:
        """The active controller's answer; Refused for an error, None without an answer."""
        node = self._node
        leader = node.quorum.leader_name
        if leader is None:
            return None
        if leader == node.host.name:
            answer = self._host.promise()
            node.controller.handle(request, answer.resolve)
            self._host.after_ms(timeout_ms, answer.resolve, None)
            return await answer
        return await node.network.ask(self._host, leader, CONTROLLER_SERVICE, request, timeout_ms)

    # -- metadata -------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Open the partitions that the metadata assigns to this broker."""
        self._opened = True
        image = self._node.controller.image
        for key in [each for each in self._node.disk.logs if isinstance(each, tuple)]:
            topic = image.topics_by_id.get(key[0])
            if topic is None or key[1] not in topic.partitions:
                del self._node.disk.logs[key]
        for topic in image.topics_by_id.values():
            for partition in topic.partitions.values():
                self._follow(topic, partition)

    def _take_roles(self) -> None:
        """Once this life is registered, take the roles in the metadata: they are not for an earlier life."""
        self._has_roles = True
        for topic in list(self._node.controller.image.topics_by_id.values()):
            for partition in list(topic.partitions.values()):
                self._follow(topic, partition)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Make the partitions follow committed metadata."""
        if not self._opened:
            return
        image = self._node.controller.image
        for topic_id, _ in delta.deleted_topics:
            for key in [each for each in self.replicas if each[0] == topic_id]:
                self._drop(key)
        for topic_id, index in delta.changed_partitions:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and index in topic.partitions:
                self._follow(topic, topic.partitions[index])

    def _drop(self, key: PartitionKey) -> None:
        replica = self.replicas.pop(key)
        replica.leader = replica.follower = None
        self._answer_all(replica, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._node.disk.logs.pop(key, None)

    def _follow(self, topic: TopicImage, image: PartitionImage) -> None:
        node_id = self._node.node_id
        key = (topic.topic_id, image.partition_id)
        if node_id not in image.replicas:
            if key in self.replicas:
                self._drop(key)
            else:
                self._node.disk.logs.pop(key, None)
            return
        replica = self.replicas.get(key)
        if replica is None:
            log = self._node.disk.logs.get(key)
            if log is None:
                log = self._node.disk.logs[key] = SimulatedLog()
            marks = self._node.disk.read(HIGH_WATERMARKS) or {}
            mark = min(marks.get(key, 0), log.log_end_offset)
            replica = self.replicas[key] = Replica(topic, image.partition_id, log, mark)
        if not self._has_roles:
            return
        if image.leader == node_id:
            self._lead(replica, image)
        else:
            self._resign(replica)
            self._begin_to_follow(replica, image)

    def _lead(self, replica: Replica, image: PartitionImage) -> None:
        leader = replica.leader
        if leader is not None and leader.leader_epoch == image.leader_epoch:
            leader.on_metadata(partition_epoch=image.partition_epoch, isr=image.isr, replicas=image.replicas)
            self._after_progress(replica)
            return
        high_watermark = replica.high_watermark
        self._resign(replica)
        replica.follower = None
        replica.log.epochs.assign(image.leader_epoch, replica.log.log_end_offset)
        rules = self._node.controller.rules(self._node.controller.image)
        replica.leader = PartitionLeader(
            local_id=self._node.node_id,
            leader_epoch=image.leader_epoch,
            isr=image.isr,
            log_end_offset=replica.log.log_end_offset,
            high_watermark=high_watermark,
            replicas=image.replicas,
            partition_epoch=image.partition_epoch,
            min_insync_replicas=rules.min_insync_replicas(replica.topic),
            lag_time_max_ms=self._settings.lag_time_max_ms,
            eligible=self._eligible,
            now_ms=self._host.steady_ms,
        )
        self._node.observer.leads(self._node, replica, replica.leader)
        self._after_progress(replica)

    def _eligible(self, node_id: int) -> int | None:
        broker = self._node.controller.image.brokers.get(node_id)
        return broker.broker_epoch if broker is not None and broker.active else None

    def _resign(self, replica: Replica) -> None:
        if replica.leader is not None:
            replica.high_watermark_before = replica.leader.high_watermark
            replica.leader = None
            self._answer_all(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _begin_to_follow(self, replica: Replica, image: PartitionImage) -> None:
        follower = replica.follower
        if follower is not None:
            if follower.leader_epoch == image.leader_epoch and follower.leader_id == image.leader:
                return
            replica.high_watermark_before = follower.high_watermark
        if image.leader < 0:
            replica.follower = None
            return
        replica.follower = PartitionFollower(
            leader_id=image.leader,
            leader_epoch=image.leader_epoch,
            log=replica.log,
            high_watermark=replica.high_watermark_before,
        )
        replica.not_before_ms = 0
        self._fetch_from(image.leader)

    # -- following ------------------------------------------------------------------------------------

    def _fetch_from(self, leader_id: int) -> None:
        task = self._fetchers.get(leader_id)
        if task is None or task.ended:
            self._fetchers[leader_id] = self._host.spawn(f"fetch {leader_id}", self._fetch(leader_id))
        else:
            nap = self._fetcher_naps.get(leader_id)
            if nap is not None:
                nap.resolve()

    async def _fetch(self, leader_id: int) -> None:
        host, settings = self._host, self._settings
        while True:
            now_ms = host.steady_ms
            followed = [
                replica
                for replica in self.replicas.values()
                if replica.follower is not None and replica.follower.leader_id == leader_id
            ]
            if not followed:
                return
            asked = tuple(
                (replica.key, replica.follower.position())
                for replica in followed
                if replica.follower is not None and replica.not_before_ms <= now_ms
            )
            if not asked or self.broker_epoch < 0:
                await self._nap(leader_id, settings.fetch_backoff_ms)
                continue
            request = FetchAsked(self._node.node_id, self.broker_epoch, settings.fetch_max_wait_ms, asked)
            answer = await self._node.network.ask(
                host, f"n{leader_id}", BROKER_SERVICE, request, settings.fetch_timeout_ms
            )
            if not isinstance(answer, Fetched):
                await self._nap(leader_id, settings.fetch_backoff_ms)
                continue
            positions = dict(asked)
            for key, partition in answer.partitions:
                replica = self.replicas.get(key)
                if replica is not None and replica.follower is not None:
                    await self._take(replica, leader_id, positions[key], partition)

    async def _nap(self, leader_id: int, duration_ms: float) -> None:
        nap = self._fetcher_naps[leader_id] = self._host.sleep(duration_ms)
        await nap

    async def _take(
        self, replica: Replica, leader_id: int, asked: FetchPosition, answer: FetchAnswer
    ) -> None:
        follower = replica.follower
        if follower is None or follower.leader_id != leader_id:
            return
        effects = list(follower.on_answer(asked, answer))
        for effect in effects:
            self._host.step()
            match effect:
                case AppendFetched(records, fetch_offset, leader_epoch):
                    self._append_fetched(replica, records, fetch_offset, leader_epoch)
                    follower.on_appended()
                    self._wake(replica)
                case Truncate(offset):
                    self._node.observer.truncates(self._node, replica, offset)
                    replica.log.truncate(offset)
                    replica.replay()
                    follower.on_truncated()
                case StartOver(offset):
                    self._node.observer.truncates(self._node, replica, 0)
                    replica.log.restart_at(offset)
                    replica.replay()
                    follower.on_truncated()
                case AdvanceLogStart(offset):
                    replica.log.advance_start(offset)
                case AskOffsets(position):
                    effects += await self._ask_offsets(replica, follower, leader_id, position)
                case AwaitMetadata() | RetryLater():
                    replica.not_before_ms = self._host.steady_ms + self._settings.fetch_backoff_ms
        self._node.observer.follows(self._node, replica)

    async def _ask_offsets(
        self, replica: Replica, follower: PartitionFollower, leader_id: int, position: FetchPosition
    ) -> list[Any]:
        answer = await self._node.network.ask(
            self._host,
            f"n{leader_id}",
            BROKER_SERVICE,
            OffsetsAsked(replica.key, position.leader_epoch),
            self._settings.fetch_timeout_ms,
        )
        if replica.follower is not follower or self.replicas.get(replica.key) is not replica:
            return []
        if not isinstance(answer, Offsets) or answer.error is not ErrorCode.NONE:
            return [RetryLater(ErrorCode.UNKNOWN_SERVER_ERROR)]
        return list(follower.on_leader_offsets(position, answer.start_offset, answer.end_offset))

    def _append_fetched(self, replica: Replica, records: Any, fetch_offset: int, leader_epoch: int) -> None:
        expected = fetch_offset
        headers: list[BatchHeader] = []
        for position, header in iterate_headers(records):
            check_crc(records, position, header)
            if header.base_offset != expected or header.partition_leader_epoch > leader_epoch:
                raise AssertionError(f"fetched {header} for offset {expected}, leader epoch {leader_epoch}")
            expected = header.next_offset
            headers.append(header)
        replica.log.append(records, headers)
        for header in headers:
            if header.producer_id >= 0:
                replica.producers.update(header)

    # -- leading --------------------------------------------------------------------------------------

    def _after_progress(self, replica: Replica) -> None:
        """The high watermark may have moved: answer the requests that waited for that."""
        leader = replica.leader
        if leader is None:
            return
        self._node.observer.progress(self._node, replica, leader)
        if replica.append_waiters:
            waiting, replica.append_waiters = replica.append_waiters, []
            for waiter in waiting:
                code = leader.acknowledgement(waiter[0])
                if code is None:
                    replica.append_waiters.append(waiter)
                else:
                    waiter[2](ProduceAnswer(code, waiter[1]))
        news = (leader.high_watermark, replica.log.log_end_offset)
        if news != replica.told:
            replica.told = news
            self._wake(replica)

    def _wake(self, replica: Replica) -> None:
        if replica.waiters:
            waiters, replica.waiters = replica.waiters, []
            for waiter in waiters:
                waiter()

    def _answer_all(self, replica: Replica, code: ErrorCode) -> None:
        waiting, replica.append_waiters = replica.append_waiters, []
        for _, _, answer in waiting:
            answer(ProduceAnswer(code))
        self._wake(replica)

    def _ask_for(self, replica: Replica, update: InSyncUpdate | None) -> None:
        if update is not None:
            self._host.spawn("alter partition", self._alter_partition(replica, update))

    async def _alter_partition(self, replica: Replica, update: InSyncUpdate) -> None:
        leader = replica.leader
        if leader is None:
            return
        request = AlterPartitionRequest(
            broker_id=self._node.node_id,
            broker_epoch=self.broker_epoch,
            topics=[
                TopicData(
                    topic_id=replica.key[0],
                    partitions=[
                        PartitionData(
                            partition_index=replica.index,
                            leader_epoch=update.leader_epoch,
                            new_isr=[],
                            new_isr_with_epochs=[
                                BrokerState(broker_id=each.node_id, broker_epoch=each.broker_epoch)
                                for each in update.isr
                            ],
                            leader_recovery_state=0,
                            partition_epoch=update.partition_epoch,
                        )
                    ],
                )
            ],
        )
        while replica.leader is leader and leader.update_under_way is update:
            answer: Any = await self.ask_controller(request)
            if replica.leader is not leader:
                return
            if answer is None or isinstance(answer, Refused) or answer.error_code:
                await self._host.sleep(self._settings.retry_ms)
                continue
            partition = answer.topics[0].partitions[0]
            code = ErrorCode(partition.error_code)
            if code is ErrorCode.NONE:
                leader.on_update_answered(
                    update,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    isr=partition.isr,
                )
                self._after_progress(replica)
                return
            again = leader.on_update_refused(update, code)
            self._after_progress(replica)
            if not again:
                return
            await self._host.sleep(self._settings.retry_ms)

    # -- requests -------------------------------------------------------------------------------------

    def handle(self, request: Any, source: str, answer: Answer) -> None:
        """Handle a request of a client or a follower."""
        match request:
            case FetchAsked():
                self._handle_fetch(request, answer, self._host.steady_ms + request.max_wait_ms)
            case Produced():
                self._handle_produce(request, answer)
            case Consumed():
                self._handle_consume(request, answer, self._host.steady_ms + request.max_wait_ms)
            case MetadataAsked(topic):
                answer(self._metadata(topic))
            case OffsetsAsked(key, leader_epoch):
                answer(self._offsets(key, leader_epoch))
            case ProducerIdAsked():
                self._host.spawn("producer id", self._give_producer_id(answer))
            case _:
                raise AssertionError(f"nobody handles {request}")

    def _leading(self, key: PartitionKey) -> tuple[Replica, PartitionLeader] | ErrorCode:
        replica = self.replicas.get(key)
        if replica is None or replica.leader is None:
            if key[0] not in self._node.controller.image.topics_by_id:
                return ErrorCode.UNKNOWN_TOPIC_ID
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return replica, replica.leader

    def _metadata(self, topic: str) -> MetadataAnswer:
        image = self._node.controller.image
        known = image.topics.get(topic)
        brokers = tuple(sorted(broker_id for broker_id in image.brokers if image.is_active(broker_id)))
        if known is None:
            return MetadataAnswer(None, (), brokers)
        return MetadataAnswer(
            known.topic_id,
            tuple(
                PartitionLocation(index, each.leader, each.leader_epoch)
                for index, each in known.partitions.items()
            ),
            brokers,
        )

    def _offsets(self, key: PartitionKey, leader_epoch: int) -> Offsets:
        led = self._leading(key)
        if isinstance(led, ErrorCode):
            return Offsets(led)
        replica, leader = led
        try:
            check_leader_epoch(leader.leader_epoch, leader_epoch)
        except KafkaError as error:
            return Offsets(error.code)
        return Offsets(ErrorCode.NONE, replica.log.log_start_offset, replica.log.log_end_offset)

    def _handle_fetch(
        self, request: FetchAsked, answer: Answer, until_ms: int, *, first: bool = True
    ) -> None:
        """Answer a follower's fetch, or let it wait; its position counts once."""
        answers: list[tuple[PartitionKey, FetchAnswer]] = []
        empty = True
        for key, position in request.partitions:
            found = self._fetch_one(request, key, position, first)
            answers.append((key, found))
            news = found.diverging is not None or found.high_watermark > position.high_watermark
            if found.error is not ErrorCode.NONE or news or found.records:
                empty = False
        if not empty or self._host.steady_ms >= until_ms:
            answer(Fetched(tuple(answers)))
            return
        done = [False]

        def look_again() -> None:
            if not done[0]:
                done[0] = True
                self._host.scheduler.soon(self._host.guard, again, None)

        def again(_: Any) -> None:
            self._handle_fetch(request, answer, until_ms, first=False)

        for key, _ in request.partitions:
            replica = self.replicas.get(key)
            if replica is not None:
                replica.waiters.append(look_again)
        self._host.after_ms(max(until_ms - self._host.steady_ms, 1), look_again)

    def _fetch_one(
        self, request: FetchAsked, key: PartitionKey, position: FetchPosition, first: bool
    ) -> FetchAnswer:
        led = self._leading(key)
        if isinstance(led, ErrorCode):
            return FetchAnswer(led)
        replica, leader = led
        log = replica.log
        try:
            check_leader_epoch(leader.leader_epoch, position.leader_epoch)
            diverging = find_divergence(
                position.last_fetched_epoch,
                position.fetch_offset,
                log.end_offset_for_epoch(position.last_fetched_epoch),
            )
            if diverging is not None:
                return FetchAnswer(
                    ErrorCode.NONE, leader.high_watermark, log.log_start_offset, diverging=diverging
                )
            if not log.log_start_offset <= position.fetch_offset <= log.log_end_offset:
                raise OffsetOutOfRange()
        except KafkaError as error:
            return FetchAnswer(error.code)
        if first:
            update = leader.on_follower_fetch(
                request.replica_id,
                position.fetch_offset,
                position.log_start_offset,
                request.broker_epoch,
                self._host.steady_ms,
            )
            self._ask_for(replica, update)
            self._after_progress(replica)
        return FetchAnswer(
            ErrorCode.NONE,
            leader.high_watermark,
            log.log_start_offset,
            records=log.read(position.fetch_offset, self._settings.fetch_bytes),
        )

    def _handle_produce(self, request: Produced, answer: Answer) -> None:
        led = self._leading(request.key)
        if isinstance(led, ErrorCode):
            self._reply_produced(request, answer, ProduceAnswer(led))
            return
        replica, leader = led
        if request.acks == -1 and not leader.has_enough_replicas:
            self._reply_produced(request, answer, ProduceAnswer(ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        try:
            header, batch = validate_produced(bytearray(request.batch), RULES, self._host.steady_ms)
            duplicate = replica.producers.check(header) if header.producer_id >= 0 else None
        except KafkaError as error:
            self._reply_produced(request, answer, ProduceAnswer(error.code))
            return
        if duplicate is None:
            base_offset = replica.log.log_end_offset
            self._node.observer.appends(self._node, replica, leader)
            patch_base_offset_and_epoch(batch, 0, base_offset, leader.leader_epoch)
            placed = header.placed(base_offset, leader.leader_epoch)
            replica.log.append(batch, [placed])
            if placed.producer_id >= 0:
                replica.producers.update(placed)
            end_offset = placed.next_offset
            leader.on_append(end_offset)
        else:
            base_offset, end_offset = duplicate.base_offset, duplicate.last_offset + 1
        if request.acks == -1:
            code = leader.acknowledgement(end_offset)
            if code is None:
                replica.append_waiters.append((end_offset, base_offset, answer))
            else:
                answer(ProduceAnswer(code, base_offset))
        else:
            self._reply_produced(request, answer, ProduceAnswer(ErrorCode.NONE, base_offset))
        self._after_progress(replica)

    def _reply_produced(self, request: Produced, answer: Answer, produced: ProduceAnswer) -> None:
        if request.acks != 0:
            answer(produced)

    def _handle_consume(self, request: Consumed, answer: Answer, until_ms: int) -> None:
        led = self._leading(request.key)
        if isinstance(led, ErrorCode):
            answer(ConsumeAnswer(led))
            return
        replica, leader = led
        try:
            check_leader_epoch(leader.leader_epoch, request.leader_epoch)
            if not replica.log.log_start_offset <= request.offset <= replica.log.log_end_offset:
                raise OffsetOutOfRange()
        except KafkaError as error:
            answer(ConsumeAnswer(error.code))
            return
        records = b""
        if request.offset < leader.high_watermark:
            records = replica.log.read(request.offset, self._settings.fetch_bytes, leader.high_watermark)
        if records or self._host.steady_ms >= until_ms:
            answer(ConsumeAnswer(ErrorCode.NONE, leader.high_watermark, records))
            return
        done = [False]

        def look_again() -> None:
            if not done[0]:
                done[0] = True
                self._host.scheduler.soon(self._host.guard, again, None)

        def again(_: Any) -> None:
            self._handle_consume(request, answer, until_ms)

        replica.waiters.append(look_again)
        self._host.after_ms(max(until_ms - self._host.steady_ms, 1), look_again)

    async def _give_producer_id(self, answer: Answer) -> None:
        first, end = self._producer_ids
        if first >= end:
            allocated: Any = await self.ask_controller(
                AllocateProducerIdsRequest(broker_id=self._node.node_id, broker_epoch=self.broker_epoch)
            )
            if allocated is None or isinstance(allocated, Refused):
                answer(ProducerIdAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
                return
            first, end = allocated.first, allocated.first + allocated.size
        self._producer_ids = (first + 1, end)
        answer(ProducerIdAnswer(ErrorCode.NONE, first))
