"""This node in the quorum of the metadata: runs the state machine of core/quorum over the log and the peers.

How a node is put together (broker.py):

    quorum = MetadataQuorum.open(directory, config, peers, now_ms=…, spawn=…)   formats or opens the log
    controller = await Controller.open(quorum, config, …)      image of what is known to be committed
    a quorum of this node alone (`quorum.alone`):
        open the partitions' logs (the image is complete), then `quorum.start(ports)`: the election is the
        first thing written, and `controller.active` holds when it returns
    several voters, or an observer:
        listen on the controller's listeners, `quorum.start(ports)`, `await controller.wait_until_caught_up()`
        (up to the high watermark that the leader told), open the partitions' logs, register
    the end: controller.close() first, then quorum.close() (resigns, syncs, closes the log)

Theory of operation. Every event (a request, an answer, a sync that has ended, the time) goes through `_feed`,
one after the other; the effects of one are performed in their order before the next. So the promise of a vote
is synced before the answer is sent. Appends go to the page cache at once; one sync at a time runs in a thread
and covers the appends that came meanwhile, and the state machine hears how far the log is durable. Requests
to others never wait behind a long poll: fetches have connections of their own.

A failure that leaves no way on (a vote or a sync that the disk refuses, a truncation of committed records)
ends this node: the first such failure is raised in a task of the supervisor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.config import BrokerConfig
from ottla.broker.controller.metadata_formatting import format_metadata, must_format, own_voter
from ottla.broker.controller.metadata_log import AppendedRecords, MetadataLog, MetadataLogLimits
from ottla.broker.controller.metadata_snapshots import IncomingSnapshot, SnapshotContent
from ottla.broker.listeners import Listener
from ottla.broker.peers.peers import PeerAddress, PeerConnections, PeerUnreachable
from ottla.broker.supervisor import Spawn, start_task
from ottla.broker.system_randomness import SystemRandomness
from ottla.core.quorum import api
from ottla.core.quorum.api import (
    NO_NODE,
    Address,
    Effect,
    ListenerEndpoint,
    QuorumSettings,
    ReplicaKey,
    Role,
    SnapshotId,
    Voter,
    VoterSet,
)
from ottla.core.quorum.quorum import Quorum
from ottla.core.settings import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError, NotController, ProtocolError
from ottla.protocol.schema import ZERO_UUID, Message
from ottla.storage.checkpoints import uuid_to_text
from ottla.storage.errors import OffsetOutOfRange, StorageError
from ottla.storage.log_directory import META_PROPERTIES, LogDirectory, LogDirectoryError

if TYPE_CHECKING:
    from ottla.broker.controller.quorum_times import QuorumTimes
    from ottla.storage.flush import FlushTask

log = logging.getLogger("ottla.broker")


#: The wait for others to hear of the resignation, a courtesy: the last node that stops has no other to tell.
RESIGNATION_SECONDS = 0.5
VOTE_PURPOSE = "quorum"
FETCH_PURPOSE = "metadata-fetch"
MAX_FETCH_WAIT_MS = 500
_FETCHES = frozenset({ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT})


class QuorumFailure(StorageError):
    """The metadata quorum can't go on; the message is one line that says why."""


class QuorumFollower(Protocol):
    """Is told of the quorum's decisions: the controller. Called on the event loop, in order."""

    def on_became(self, role: Role, epoch: int, leader_id: int) -> None:
        """This node's role, its epoch or the leader has changed."""

    def on_controls_appended(self, epoch: int, first_offset: int, end_offset: int) -> None:
        """This leader wrote control records of its own."""

    def on_commit(self, high_watermark: int) -> None:
        """Everything below is committed."""

    def on_snapshot(self, snapshot: SnapshotId, content: SnapshotContent) -> None:
        """The log now begins at the end of a leader's snapshot, which has everything below."""

    def on_failure(self, failure: BaseException) -> None:
        """Nothing more will come."""


class MetadataQuorum:
    """This node as a voter or an observer of the metadata quorum. Used on the event loop only."""

    def __init__(
        self,
        directory: LogDirectory,
        config: BrokerConfig,
        metadata_log: MetadataLog,
        peers: PeerConnections,
        now_ms: Callable[[], int],
        spawn: Spawn | None,
    ) -> None:
        self.directory = directory
        self.log = metadata_log
        self.stranger: Address | None = None
        """The address of a node of another cluster; `met_stranger` is set once there is one."""
        self.met_stranger = asyncio.Event()
        self.node_id = config.node_id
        self.alone = config.quorum_alone and _only_voter(directory, config, metadata_log)
        """Whether this node is the only voter: it needs no other node, and asks none."""
        self.failure: BaseException | None = None
        """The failure that ended this node's part."""
        self._config = config
        self._peers = peers
        self._now_ms = now_ms
        self._spawn = spawn
        self._follower: QuorumFollower | None = None
        self._core: Quorum | None = None
        self._events: deque[Callable[[int], list[Effect]]] = deque()
        self._feeding = False
        self._tells_of_append = False
        self._closed = False
        self._told = ""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._syncing: asyncio.Task[Any] | None = None
        self._sends: set[asyncio.Task[Any]] = set()
        self._installing: asyncio.Task[Any] | None = None
        self._last_token = 0
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._fed = asyncio.Event()
        self.times: QuorumTimes | None = None
        """How long elections, appends and commits take; None where that is not measured."""
        self.on_flushed: Callable[[FlushTask], None] | None = None
        """Called after each sync of the log."""

    @property
    def core(self) -> Quorum | None:
        """The state machine; None before `start`."""
        return self._core

    @classmethod
    def open(
        cls,
        directory: LogDirectory,
        config: BrokerConfig,
        peers: PeerConnections,
        *,
        now_ms: Callable[[], int],
        spawn: Spawn | None = None,
    ) -> MetadataQuorum:
        """Open the metadata log of a locked directory, formatting it if it has none. Blocks on the disk.

        `spawn` starts the tasks; give the supervisor's, so that a task that dies stops the node. Raises
        LogDirectoryError, LogCorruption or OSError.
        """
        limits = MetadataLogLimits(
            segment_bytes=config[broker_settings.METADATA_LOG_SEGMENT_BYTES],
            segment_ms=config[broker_settings.METADATA_LOG_SEGMENT_MS],
            max_batch_bytes=config[broker_settings.INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES],
            max_retention_bytes=config[broker_settings.METADATA_MAX_RETENTION_BYTES],
            max_retention_ms=config[broker_settings.METADATA_MAX_RETENTION_MS],
            snapshot_after_bytes=config[broker_settings.METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS],
            snapshot_after_ms=config[broker_settings.METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS],
            file_delete_delay_ms=config[broker_settings.INTERNAL_METADATA_DELETE_DELAY_MILLIS],
        )
        if must_format(directory):
            voters = None
            if config.quorum_alone:
                voters = own_voter(
                    config.node_id, directory.directory_id, (_endpoint(config.controller_listener, {}),)
                )
            format_metadata(
                directory,
                voters,
                controller=config.is_controller,
                now_ms=now_ms(),
                first_users=config.first_users(),
            )
        metadata_log = MetadataLog.open(directory, limits, now_ms(), alone=config.quorum_alone)
        return cls(directory, config, metadata_log, peers, now_ms, spawn)

    # -- who leads ----------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        """The leader of `epoch`; -1 while it is not known."""
        return NO_NODE if self._core is None else self._core.leader_id

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows of."""
        return 0 if self._core is None else self._core.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this node leads `epoch`. It may submit a little later: see `Controller.active`."""
        return self._core is not None and self._core.role is Role.LEADER

    def leads(self, epoch: int) -> bool:
        """Whether this node is the leader of this very epoch."""
        return self.is_leader and self.epoch == epoch

    def leader_address(self) -> Address | None:
        """The leader's controller listener; None while no leader is known."""
        return None if self._core is None else self._core.leader_address

    @property
    def voters(self) -> VoterSet:
        """The voters as the log (or, for a fixed quorum, the configuration) has them."""
        return VoterSet(()) if self._core is None else self._core.voters

    @property
    def high_watermark(self) -> int:
        """The offset below which all records are committed; -1 while it is not known."""
        return -1 if self._core is None else self._core.high_watermark

    @property
    def kraft_version(self) -> int:
        """0: the configuration names the voters; 1: the log does (KIP-853)."""
        return 0 if self._core is None else self._core.kraft_version

    def voters_at(self, offset: int) -> VoterSet | None:
        """The voters that the log names below `offset`; None if it names none."""
        assert self._core is not None
        return self._core.voters_at(offset)

    def kraft_version_at(self, offset: int) -> int:
        """The kraft.version below `offset`."""
        assert self._core is not None
        return self._core.kraft_version_at(offset)

    # -- living -------------------------------------------------------------------------------------------

    def follow(self, follower: QuorumFollower) -> None:
        """Tell `follower` from now on."""
        self._follower = follower

    def start(self, ports: Mapping[str, int]) -> None:
        """Take part: elections, votes, fetches. `ports` are the bound ones by listener.

        A quorum of this node alone has elected it when this returns: its first write, and it blocks for it.
        Raises OSError.
        """
        if not self.alone:
            self.log.flush()  # records that a kill left in the page cache count from now on
        config = self._config
        listeners: tuple[Listener, ...] = ()
        if config.is_controller:
            listeners = config.advertised_controller_listeners or (config.controller_listener,)
        static_voters: VoterSet | None = None
        endpoints = tuple(_endpoint(each, ports) for each in listeners)
        if config.quorum_voters:
            static_voters = VoterSet(
                tuple(
                    Voter(
                        ReplicaKey(voter_id, ZERO_UUID),
                        (ListenerEndpoint(config.controller_listener.name, address.host, address.port),),
                    )
                    for voter_id, address in sorted(config.quorum_voters.items())
                )
            )
        elif config.quorum_alone:
            static_voters = own_voter(self.node_id, ZERO_UUID, endpoints)
        self._core = Quorum(
            self._settings(),
            self.directory.cluster_id,
            ReplicaKey(self.node_id, self.directory.directory_id),
            endpoints,
            static_voters,
            self.log.controls,
            self.log.election(),
            self.log,
            SystemRandomness(),
            wall_offset_ms=self._now_ms() - self._steady_ms(),
        )
        self._feed(self._core.start)
        if self.failure is not None:
            raise self.failure

    def _settings(self) -> QuorumSettings:
        config = self._config
        fetch_timeout_ms = config[broker_settings.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS]
        return QuorumSettings(
            election_timeout_ms=config[broker_settings.CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS],
            fetch_timeout_ms=fetch_timeout_ms,
            # A fetch that waits for records is answered well before its sender takes the leader for dead.
            fetch_max_wait_ms=min(MAX_FETCH_WAIT_MS, fetch_timeout_ms // 2),
            election_backoff_max_ms=config[broker_settings.CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS],
            request_timeout_ms=config[broker_settings.CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
            retry_backoff_ms=config[broker_settings.CONTROLLER_QUORUM_RETRY_BACKOFF_MS],
            fetch_max_bytes=config[broker_settings.CONTROLLER_QUORUM_FETCH_MAX_BYTES],
            snapshot_fetch_max_bytes=config[broker_settings.CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES],
            bootstrap_servers=config.quorum_bootstrap_servers,
            auto_join=config[broker_settings.CONTROLLER_QUORUM_AUTO_JOIN_ENABLE],
            may_vote=config.is_controller,
        )

    async def handle(self, api_version: int, request: Message) -> Message:
        """The answer to a request of another node or client about the quorum: Vote, BeginQuorumEpoch,
        EndQuorumEpoch, Fetch and FetchSnapshot of the metadata, Add-, Remove- and UpdateRaftVoter,
        DescribeQuorum. Fetch may wait for records. Raises NotController when this node takes no part.
        """
        core = self._core
        if core is None or self._closed or self.failure is not None:
            raise NotController("this node does not take part in the quorum")
        self._last_token += 1
        token = self._last_token
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        core.wall_offset_ms = self._now_ms() - self._steady_ms()
        self._feed(lambda now: core.on_request(now, token, request, api_version))
        try:
            return await answer
        finally:
            if self._waiting.pop(token, None) is not None and not self._closed:
                core.on_disconnected(token)

    def append(self, epoch: int, records: Sequence[Message]) -> AppendedRecords:
        """Append records as the leader of `epoch`. They are committed when the follower hears so.

        Raises NotController, or OSError with nothing appended.
        """
        core = self._core
        if core is None or not self.leads(epoch) or self.failure is not None:
            raise NotController("this node does not lead the metadata")
        began = time.monotonic()
        appended = self.log.append(epoch, records, self._now_ms())
        if self.times is not None:
            self.times.appended(self.log.end_offset, len(records), began)
        # Once for all that is appended in this turn of the loop: it goes to the others in one answer.
        if not self._tells_of_append:
            self._tells_of_append = True
            asyncio.get_running_loop().call_soon(self._tell_of_append)
        self._sync_soon()
        return appended

    def _tell_of_append(self) -> None:
        self._tells_of_append = False
        if self.is_leader and self._core is not None:
            self._feed(self._core.on_leader_appended)

    def snapshot_written(self) -> None:
        """A snapshot of this node is in place: older ones, and the log before the oldest, may have gone."""
        if self._core is not None:
            self._feed(self._core.on_snapshot_written)

    def upgrade_kraft_version(self, version: int, validate_only: bool) -> tuple[ErrorCode, str | None]:
        """UpdateFeatures' kraft.version: the error and its text, or NONE once its record is appended."""
        core = self._core
        if core is None or not self.is_leader:
            raise NotController("this node does not lead the metadata")
        answer: tuple[ErrorCode, str | None] = (ErrorCode.NOT_CONTROLLER, None)

        def upgrade(now_ms: int) -> list[Effect]:
            nonlocal answer
            error, text, effects = core.upgrade_kraft_version(now_ms, version, validate_only)
            answer = error, text
            return effects

        self._feed(upgrade)
        return answer

    async def close(self) -> None:
        """Resign (others are told, so that they need not wait for a timeout), then sync and close the log."""
        core = self._core
        if core is not None and self.failure is None and not self._closed:
            self._feed(core.resign)
            timeout_ms = self._config[broker_settings.CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS]
            try:
                async with asyncio.timeout(min(RESIGNATION_SECONDS, timeout_ms / 1000)):
                    while not core.resigned and self.failure is None:
                        self._fed.clear()
                        await self._fed.wait()
            except TimeoutError:
                log.info("the quorum was left without an answer to the resignation")
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in (*self._sends, *([self._installing] if self._installing else ())):
            task.cancel()
        await asyncio.gather(*self._sends, return_exceptions=True)
        if self._syncing is not None:
            await asyncio.gather(self._syncing, return_exceptions=True)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NotController("this node is stopping"))
        try:
            await asyncio.to_thread(self.log.close)
        except OSError as error:  # the next start finds the log as after a kill
            log.error("the metadata log could not be closed error=%s", error)
            if self.failure is None:
                raise

    # -- events and effects -------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Take no part any more, without a word to the others: the start of this node has failed."""
        self._closed = True
        self._set_timer()

    @staticmethod
    def _steady_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _feed(self, event: Callable[[int], list[Effect]]) -> None:
        """Give the state machine an event, and perform its effects."""
        if self._closed or self.failure is not None:
            return
        self._events.append(event)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._events:
                for effect in self._events.popleft()(self._steady_ms()):
                    self._perform(effect)
        except Exception as failure:
            self._fail(failure)
        finally:
            self._feeding = False
            self._events.clear()
        self._fed.set()
        self._set_timer()

    def _perform(self, effect: Effect) -> None:
        core, follower = self._core, self._follower
        assert core is not None
        match effect:
            case api.SaveElection(state):
                self.log.save_election(
                    state, kraft_version=core.kraft_version, voter_ids=core.voters.node_ids
                )
            case api.Send():
                self._send(effect)
            case api.Reply(token, response):
                self._reply(token, response)
            case api.ReplyRecords():
                self._reply_records(effect)
            case api.ReplySnapshot():
                self._reply_snapshot(effect)
            case api.AppendControls(epoch, records):
                first, end = self.log.append_controls(epoch, records, self._now_ms())
                if follower is not None:
                    follower.on_controls_appended(epoch, first, end)
                self._events.append(core.on_leader_appended)
                self._sync_soon()
            case api.AppendFetched():
                self._append_fetched(effect)
            case api.Truncate(offset):
                if offset < core.high_watermark:
                    raise QuorumFailure(
                        f"the metadata log {self.log.directory} would be cut at offset {offset}, below its "
                        f"high watermark {core.high_watermark}: the quorum has lost committed changes"
                    )
                log.info("metadata log truncated offset=%d old_end=%d", offset, self.log.end_offset)
                self.log.truncate(offset, self._now_ms())
            case api.Commit(high_watermark):
                if self.times is not None:
                    self.times.committed(high_watermark)
                if follower is not None:
                    follower.on_commit(high_watermark)
            case api.Became(role, epoch, leader_id):
                log.info(
                    "metadata quorum role=%s epoch=%d leader=%d end=%d",
                    role.value, epoch, leader_id, self.log.end_offset,
                )  # fmt: skip
                if self.times is not None:
                    self.times.became(role, leader_id)
                if follower is not None:
                    follower.on_became(role, epoch, leader_id)
            case api.BeginSnapshot(snapshot):
                self._stop_installing()
                self._begin_snapshot(snapshot)
            case api.AppendSnapshot(snapshot, data):
                self._append_snapshot(snapshot, data)
            case api.InstallSnapshot():
                self._stop_installing()
                incoming = self.log.incoming
                if incoming is not None:
                    self._installing = start_task(self._spawn, "metadata-install", self._install(incoming))
            case api.Report(trouble, node_id, address):
                where = "" if address is None else f" address={address.host}:{address.port}"
                log.error("metadata quorum: %s node=%d%s", trouble.value, node_id, where)
                if trouble is api.Trouble.OTHER_CLUSTER and address is not None:
                    self.stranger = address
                    self.met_stranger.set()

    def _set_timer(self) -> None:
        core = self._core
        wake_ms = None if core is None or self._closed or self.failure is not None else core.next_wake_ms()
        if wake_ms == self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms, self._timer = wake_ms, None
        if wake_ms is not None:
            # A millisecond later: times are cut to whole milliseconds, and an early wake-up would only be
            # repeated.
            self._timer = asyncio.get_running_loop().call_at((wake_ms + 1) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = self._timer_ms = None
        if self._core is not None:
            self._feed(self._core.on_time)

    def _fail(self, failure: BaseException) -> None:
        """Take no part any more, and stop the node."""
        if self.failure is not None:
            return
        self.failure = failure
        log.error("the metadata quorum has failed: %s", failure)
        if self._follower is not None:
            self._follower.on_failure(failure)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NotController("this node takes no part in the quorum any more"))

        async def die() -> None:
            raise failure

        if self._spawn is not None:
            self._spawn("metadata-quorum", die())

    # -- requests -----------------------------------------------------------------------------------------

    @property
    def channel_bytes(self) -> tuple[int, int]:
        """The bytes that this node has received from others and has sent to them for its part."""
        counts = [self._peers.bytes_of(purpose) for purpose in (FETCH_PURPOSE, VOTE_PURPOSE)]
        return sum(each.received for each in counts), sum(each.sent for each in counts)

    def _send(self, effect: api.Send) -> None:
        task = start_task(self._spawn, "metadata-request", self._ask(effect))
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)

    async def _ask(self, effect: api.Send) -> None:
        core = self._core
        assert core is not None
        purpose = FETCH_PURPOSE if effect.request.API_KEY in _FETCHES else VOTE_PURPOSE
        response: Message | None = None
        if self.times is not None:
            self.times.requests += 1
        try:
            response = await self._peers.ask(
                purpose, PeerAddress(*effect.to), effect.request, timeout_ms=effect.timeout_ms
            )
        except PeerUnreachable as problem:
            log.debug("no answer purpose=%s to=%s:%d reason=%s", purpose, *effect.to, problem)
        except (KafkaError, ProtocolError) as problem:
            # The version lacks a field that is set: the other node runs another release.
            log.warning("request not sent purpose=%s to=%s:%d reason=%s", purpose, *effect.to, problem)
        if response is not None and self.times is not None:
            self.times.responses += 1
            if purpose == FETCH_PURPOSE:
                self.times.leader_answered()
        self._feed(lambda now: core.on_response(now, effect.request_id, response))

    def _reply(self, token: int, response: Message) -> None:
        answer = self._waiting.get(token)
        if answer is not None and not answer.done():
            del self._waiting[token]
            answer.set_result(response)

    def _reply_records(self, effect: api.ReplyRecords) -> None:
        response: Any = effect.response
        partition = response.responses[0].partitions[0]
        try:
            partition.records = self.log.read(effect.fetch_offset, effect.max_bytes)
        except OffsetOutOfRange:  # the log's start has moved since
            partition.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            partition.records = b""
        self._reply(effect.token, response)

    def _reply_snapshot(self, effect: api.ReplySnapshot) -> None:
        response: Any = effect.response
        partition = response.topics[0].partitions[0]
        piece = self.log.read_snapshot_piece(effect.snapshot, effect.position, effect.max_bytes)
        if piece is None:
            partition.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= effect.position < piece[0]:
            partition.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            partition.position = effect.position
            partition.size, partition.unaligned_records = piece
        self._reply(effect.token, response)

    # -- the log ------------------------------------------------------------------------------------------

    def _append_fetched(self, effect: api.AppendFetched) -> None:
        core = self._core
        assert core is not None
        before = self.log.end_offset
        try:
            controls = self.log.append_fetched(effect.records, effect.leader_epoch, self._now_ms())
        except (ProtocolError, OSError) as problem:
            self._tell_once(f"metadata not appended end={self.log.end_offset} reason={problem}")
            self._events.append(core.on_append_failed)
            return
        if self.times is not None:
            self.times.fetched(self.log.end_offset - before)
        self._told = ""
        self._events.append(lambda now: core.on_appended(now, controls))
        self._sync_soon()

    def _tell_once(self, problem: str) -> None:
        """Log a problem once: the request is tried again fifty times a second until it works."""
        if problem != self._told:
            self._told = problem
            log.error("%s", problem)

    def _sync_soon(self) -> None:
        if self._syncing is None:
            self._syncing = start_task(self._spawn, "metadata-sync", self._sync())

    async def _sync(self) -> None:
        """Make everything appended durable, again and again until nothing is left."""
        core = self._core
        assert core is not None
        try:
            while (task := self.log.prepare_flush()) is not None:
                await asyncio.to_thread(task.run)
                self.log.complete_flush(task)
                if self.on_flushed is not None:
                    self.on_flushed(task)
                self._feed(lambda now: core.on_flushed(now, self.log.recovery_point))
        except OSError as failure:
            # The state of the disk is not known any more: the next start will find out.
            self._fail(failure)
        finally:
            self._syncing = None

    # -- a leader's snapshot ------------------------------------------------------------------------------

    def _begin_snapshot(self, snapshot: SnapshotId) -> None:
        try:
            self.log.begin_incoming(snapshot)
        except OSError as problem:
            log.error("metadata snapshot not begun file=%s reason=%s", snapshot.file_name, problem)
            assert self._core is not None
            self._events.append(self._core.on_snapshot_failed)

    def _append_snapshot(self, snapshot: SnapshotId, data: Any) -> None:
        incoming = self.log.incoming
        if incoming is None:
            return  # the disk refused an earlier piece, and the state machine will hear of it
        if incoming.snapshot != snapshot:
            raise QuorumFailure(f"bytes of snapshot {snapshot.file_name}, which was not begun")
        try:
            incoming.append(data)
        except OSError as problem:
            log.error("metadata snapshot not written file=%s reason=%s", snapshot.file_name, problem)
            self.log.drop_incoming()
            assert self._core is not None
            self._events.append(self._core.on_snapshot_failed)

    def _stop_installing(self) -> None:
        if self._installing is not None:
            self._installing.cancel()
            self._installing = None

    async def _install(self, incoming: IncomingSnapshot) -> None:
        """Check the snapshot that has come, in a thread, and put it in the log's place."""
        core, snapshot = self._core, incoming.snapshot
        assert core is not None
        try:
            content = await asyncio.to_thread(incoming.read)
        except StorageError as problem:
            log.error("the leader's snapshot is no snapshot file=%s reason=%s", snapshot.file_name, problem)
            self._feed(core.on_snapshot_failed)
            return
        except OSError as failure:
            self._fail(failure)
            return
        finally:
            if self._installing is asyncio.current_task():
                self._installing = None
        if self._closed or self.log.incoming is not incoming:
            return
        try:
            installed = self.log.install_incoming(self._now_ms())
        except OSError as failure:
            self._fail(failure)
            return
        if installed:
            log.info("metadata snapshot installed file=%s", snapshot.file_name)
            if self._follower is not None:
                self._follower.on_snapshot(snapshot, content)
        self._feed(lambda now: core.on_snapshot_installed(now, snapshot, content.controls))


def _endpoint(listener: Listener, ports: Mapping[str, int]) -> ListenerEndpoint:
    return ListenerEndpoint(listener.name, listener.host, listener.port or ports.get(listener.name, 0))


def _only_voter(directory: LogDirectory, config: BrokerConfig, metadata_log: MetadataLog) -> bool:
    """Whether the log names this node only, as a quorum of one node alone must.

    Raises LogDirectoryError for one of several nodes, if others could not reach this one; and for one of
    another directory.
    """
    named = [control.value for control in metadata_log.controls if isinstance(control.value, VoterSet)]
    if not named:
        return True
    voters = named[-1]
    if voters.node_ids != (config.node_id,):
        if config.controller_listeners:
            return False
        raise LogDirectoryError(
            f"log directory {directory.path} belongs to a quorum of the nodes "
            f"{', '.join(map(str, voters.node_ids))}: give this node a listener of controller.listener.names "
            "and name the others in controller.quorum.bootstrap.servers"
        )
    known = voters.voters[0].key.directory_id
    if known not in (ZERO_UUID, directory.directory_id):
        raise LogDirectoryError(
            f"{directory.path / META_PROPERTIES} belongs to another cluster or directory (it has "
            f"directory.id {uuid_to_text(directory.directory_id)}, {metadata_log.directory.name} has "
            f"{uuid_to_text(known)}): put the one back that was here, or name another directory"
        )
    return True
