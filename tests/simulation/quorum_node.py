"""A node in the simulated quorum: performs the effects of core/quorum on its disk and over the network.

The order of steps is that of `broker/controller/metadata_quorum.py`; a kill may strike between any two.
Committed batches go to the node's metadata in the order of their offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ottla.core.decisions.decision import record_version
from ottla.core.quorum.api import (
    NO_NODE,
    Address,
    AppendControls,
    AppendFetched,
    AppendSnapshot,
    Became,
    BeginSnapshot,
    Commit,
    Effect,
    ElectionState,
    InstallSnapshot,
    ListenerEndpoint,
    QuorumSettings,
    ReplicaKey,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    Report,
    Role,
    SaveElection,
    Send,
    SnapshotId,
    Truncate,
    VoterSet,
)
from ottla.core.quorum.control_records import (
    LogControl,
    controls_of,
    kraft_version_control,
    voters_control,
)
from ottla.core.quorum.quorum import Quorum
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import (
    BatchHeader,
    ControlRecordType,
    NewRecord,
    check_crc,
    decode_records,
    encode_batch,
    encode_control_batch,
    iterate_headers,
)
from ottla.protocol.records.framing import decode_metadata_record, encode_metadata_record
from ottla.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from ottla.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.schema import Buffer, Message
from simulation.world.disk import Disk, SimulatedLog
from simulation.world.host import Host
from simulation.world.network import Network
from simulation.world.network import Reply as Answer

METADATA_LOG = "__cluster_metadata-0"
QUORUM_STATE = "quorum-state"
SNAPSHOTS = "snapshots"
CONTROLLER_SERVICE = "controller"


class Dice:
    """The core's random choices, from the simulated world's random numbers."""

    def __init__(self, host: Host) -> None:
        self._random = host.scheduler.random

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


class MetadataLogView:
    """The simulated metadata log as the state machine sees it."""

    def __init__(self, log: SimulatedLog, snapshots: dict[SnapshotId, bytes]) -> None:
        self._log = log
        self._snapshots = snapshots

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def last_epoch(self) -> int:
        in_log = self._log.last_epoch
        if in_log is not None:
            return in_log
        latest = self.latest_snapshot
        return 0 if latest is None else latest.epoch

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self._snapshots, default=None)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return min(self._snapshots, default=None)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        last = self._log.last_epoch
        if last is not None and epoch >= last:
            return last, self._log.log_end_offset
        entries = self._log.epochs.entries
        if not entries or epoch < entries[0][0]:
            return -1, -1
        return self._log.end_offset_for_epoch(epoch)


class QuorumNode:
    """One life of a node in the quorum."""

    def __init__(
        self,
        host: Host,
        disk: Disk,
        network: Network,
        *,
        node_id: int,
        directory_id: Any,
        cluster_id: str,
        listeners: tuple[ListenerEndpoint, ...],
        static_voters: VoterSet | None,
        settings: QuorumSettings,
        on_commit: Callable[[BatchHeader, bytes], None],
        on_snapshot: Callable[[SnapshotId, bytes], None],
        on_became: Callable[[Became], None],
        on_progress: Callable[[], None],
    ) -> None:
        self.host = host
        self.disk = disk
        self._network = network
        self._on_commit = on_commit
        self._on_snapshot = on_snapshot
        self._on_became = on_became
        self._on_progress = on_progress
        self.log: SimulatedLog = disk.logs.setdefault(METADATA_LOG, SimulatedLog())
        snapshots = disk.read(SNAPSHOTS)
        if snapshots is None:
            snapshots = {}
            disk.write(SNAPSHOTS, snapshots, sync=True)
        self.snapshots: dict[SnapshotId, bytes] = snapshots
        self.log.sync_now()  # the recovered log is synced before other nodes hear of it
        self._finish_snapshot_installation()
        self.committed_to = 0
        """The batches below have been given to `on_commit`."""
        self._replies: dict[int, Answer] = {}
        self._next_token = 0
        self._sync: list[int] | None = None
        self._wake: Any = None
        self._wake_ms: int | None = None
        self._feeds: deque[Callable[[], Sequence[Effect]]] = deque()
        self._performing = False
        self._coming: tuple[SnapshotId, bytearray] | None = None
        self._begin_from_disk()
        self.quorum = Quorum(
            settings,
            cluster_id,
            ReplicaKey(node_id, directory_id),
            listeners,
            static_voters,
            list(self._history()),
            disk.read(QUORUM_STATE) or ElectionState(),
            MetadataLogView(self.log, self.snapshots),
            Dice(host),
        )

    # -- opening --------------------------------------------------------------------------------------

    def _finish_snapshot_installation(self) -> None:
        """Repair a kill between a snapshot's installation and the log's new beginning."""
        latest = max(self.snapshots, default=None)
        if latest is not None and latest.end_offset > self.log.log_end_offset:
            self.log.restart_at(latest.end_offset)

    def _begin_from_disk(self) -> None:
        latest = max(self.snapshots, default=None)
        if latest is not None and latest.end_offset > 0:
            self._on_snapshot(latest, self.snapshots[latest])
            self.committed_to = latest.end_offset

    def _history(self) -> Iterator[LogControl]:
        latest = max(self.snapshots, default=None)
        start = 0
        if latest is not None:
            yield from snapshot_controls(latest, self.snapshots[latest])
            start = latest.end_offset
        for header, batch in self.log.batches(start):
            if header.base_offset >= start and header.is_control:
                yield from controls_of(decode_records(batch))

    # -- life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the quorum."""
        self.feed(lambda: self.quorum.start(self.host.steady_ms))

    def resign(self) -> None:
        """Begin a clean stop."""
        self.feed(lambda: self.quorum.resign(self.host.steady_ms))

    def handle(self, request: Message, answer: Answer) -> None:
        """Handle a request of the quorum."""
        self._next_token += 1
        token = self._next_token
        self._replies[token] = answer
        version = type(request).MAX_VERSION
        self.feed(lambda: self.quorum.on_request(self.host.steady_ms, token, request, version))

    def append(self, records: Sequence[Message]) -> int:
        """Append a leader's records as one batch; return the offset after it."""
        now_ms = self.host.steady_ms
        encoded = [
            NewRecord(None, encode_metadata_record(record, record_version(record)), now_ms)
            for record in records
        ]
        batch = encode_batch(encoded, base_offset=self.log.log_end_offset, leader_epoch=self.quorum.epoch)
        self.host.step()
        self.log.append(batch)
        end = self.log.log_end_offset
        self.feed(lambda: self.quorum.on_leader_appended(self.host.steady_ms))
        self._sync_soon()
        return end

    def write_snapshot(self, snapshot: SnapshotId, records: Sequence[Message], keep: int) -> bytes:
        """Write a snapshot of all committed records; the newest `keep` stay, and the log after them."""
        voters = self.quorum.voters_at(snapshot.end_offset)
        version = self.quorum.kraft_version_at(snapshot.end_offset)
        data = encode_snapshot(records, voters, version)
        self.host.step()
        self.snapshots[snapshot] = data
        self.host.step()
        kept = sorted(self.snapshots)[-keep:]
        for old in [each for each in self.snapshots if each not in kept]:
            del self.snapshots[old]
        if kept[0].end_offset > self.log.log_start_offset:
            self.log.advance_start(kept[0].end_offset)
        self.feed(lambda: self.quorum.on_snapshot_written(self.host.steady_ms))
        return data

    # -- the loop of events and effects ---------------------------------------------------------------

    def feed(self, event: Callable[[], Sequence[Effect]], *, first: bool = False) -> None:
        """Feed the state machine an event, and perform its effects before the next event."""
        if first:
            self._feeds.appendleft(event)
        else:
            self._feeds.append(event)
        if self._performing:
            return
        self._performing = True
        try:
            while self._feeds:
                for effect in self._feeds.popleft()():
                    self.host.step()
                    self._perform(effect)
        finally:
            self._performing = False
        self._set_timer()
        self._on_progress()

    def _set_timer(self) -> None:
        due_ms = self.quorum.next_wake_ms()
        if due_ms == self._wake_ms:
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake_ms = due_ms
        self._wake = None if due_ms is None else self.host.at_steady_ms(due_ms, self._on_time)

    def _on_time(self) -> None:
        self._wake = self._wake_ms = None
        self.feed(lambda: self.quorum.on_time(self.host.steady_ms))

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(effect)
            case Reply(token, response):
                self._replies.pop(token)(response)
            case ReplyRecords(token, response, fetch_offset, max_bytes):
                partition = response.responses[0].partitions[0]  # type: ignore[attr-defined]
                partition.records = self.log.read(fetch_offset, max_bytes)
                self._replies.pop(token)(response)
            case SaveElection(state):
                self.disk.write(QUORUM_STATE, state, sync=True)
                self.host.promised()
            case AppendFetched(records, leader_epoch):
                self._append_fetched(records, leader_epoch)
            case AppendControls(epoch, records):
                batch = encode_control_batch(
                    records,
                    timestamp=self.host.steady_ms,
                    base_offset=self.log.log_end_offset,
                    leader_epoch=epoch,
                )
                self.log.append(batch)
                self.feed(lambda: self.quorum.on_leader_appended(self.host.steady_ms), first=True)
                self._sync_soon()
            case Truncate(offset):
                self.log.truncate(offset)
            case Commit(high_watermark):
                self._commit(high_watermark)
            case Became():
                self._on_became(effect)
            case ReplySnapshot(token, response, snapshot, position, max_bytes):
                self._put_snapshot_in(response, snapshot, position, max_bytes)
                self._replies.pop(token)(response)
            case Report():
                self._on_report(effect)
            case BeginSnapshot(snapshot):
                self._coming = (snapshot, bytearray())
            case AppendSnapshot(snapshot, data):
                assert self._coming is not None and self._coming[0] == snapshot
                self._coming[1].extend(data)
            case InstallSnapshot(snapshot):
                assert self._coming is not None and self._coming[0] == snapshot
                self.host.after_ms(self.disk.sync_duration_ms(), self._install, self._coming)

    def _put_snapshot_in(self, response: Any, snapshot: SnapshotId, position: int, max_bytes: int) -> None:
        answer = response.topics[0].partitions[0]
        data = self.snapshots.get(snapshot)
        if data is None:
            answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= position < len(data):
            answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            answer.size = len(data)
            answer.unaligned_records = data[position : position + max_bytes]

    def _on_report(self, effect: Report) -> None:
        raise AssertionError(f"all nodes are of one cluster: {effect}")

    def _send(self, effect: Send) -> None:
        life = self.host.life

        def answered(response: Any) -> None:
            if self.host.life == life:
                now_ms = self.host.steady_ms
                self.feed(lambda: self.quorum.on_response(now_ms, effect.request_id, response))

        promise = self._network.ask(
            self.host, node_at(effect.to), CONTROLLER_SERVICE, effect.request, effect.timeout_ms
        )
        promise.observe(lambda response: self.host.guard(answered, response))

    def _append_fetched(self, records: Any, leader_epoch: int) -> None:
        expected = self.log.log_end_offset
        headers = []
        for position, header in iterate_headers(records):
            check_crc(records, position, header)
            if header.base_offset != expected or header.partition_leader_epoch > leader_epoch:
                raise AssertionError(f"fetched {header}, the log ends at {expected}, epoch {leader_epoch}")
            expected = header.next_offset
            headers.append(header)
        if not headers:
            self.feed(lambda: self.quorum.on_append_failed(self.host.steady_ms))
            return
        self.log.append(records, headers)
        controls = tuple(log_controls(records))
        self.feed(lambda: self.quorum.on_appended(self.host.steady_ms, controls), first=True)
        self._sync_soon()

    def _sync_soon(self) -> None:
        if self._sync is not None:
            return
        self._sync = self.log.begin_sync()
        self.host.after_ms(self.disk.sync_duration_ms(), self._synced, self._sync)

    def _synced(self, sync: list[int]) -> None:
        if sync is not self._sync:
            return  # the sync was of a log that a snapshot has replaced
        self._sync = None
        end = self.log.end_sync(sync)
        if self.log.log_end_offset > end:
            self._sync_soon()
        self.feed(lambda: self.quorum.on_flushed(self.host.steady_ms, end))

    def _commit(self, high_watermark: int) -> None:
        for header, batch in list(self.log.batches(self.committed_to, high_watermark)):
            if header.next_offset > high_watermark:
                break
            self.committed_to = header.next_offset
            self._on_commit(header, batch)

    def _install(self, coming: tuple[SnapshotId, bytearray]) -> None:
        if coming is not self._coming:
            return  # another snapshot was begun meanwhile
        snapshot, data = coming[0], bytes(coming[1])
        self._coming = None
        self.snapshots[snapshot] = data
        self.host.step()
        self.log.restart_at(snapshot.end_offset)
        self._sync = None
        for old in [each for each in self.snapshots if each < snapshot]:
            del self.snapshots[old]
        self._on_snapshot(snapshot, data)
        self.committed_to = snapshot.end_offset
        controls = list(snapshot_controls(snapshot, data))
        now_ms = self.host.steady_ms
        self.feed(lambda: self.quorum.on_snapshot_installed(now_ms, snapshot, controls), first=True)

    # -- state ----------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this node leads its epoch."""
        return self.quorum.role is Role.LEADER

    @property
    def leader_name(self) -> str | None:
        """The host of the leader, as far as this node knows."""
        leader_id = self.quorum.leader_id
        return None if leader_id == NO_NODE else f"n{leader_id}"


def address_of(node_id: int) -> Address:
    """Where a node's controller listener is."""
    return Address(f"n{node_id}", 9093)


def node_at(address: Address) -> str:
    """The host at an address."""
    return address.host


# -- snapshots ----------------------------------------------------------------------------------------


def encode_snapshot(records: Sequence[Message], voters: VoterSet | None, kraft_version: int) -> bytes:
    """A snapshot's content, as `broker/controller/metadata_snapshots.py` writes it, without the time."""
    controls = [
        (
            ControlRecordType.SNAPSHOT_HEADER,
            SnapshotHeaderRecord(version=0, last_contained_log_timestamp=0).encode(0),
        )
    ]
    if voters is not None and kraft_version > 0:
        controls += [kraft_version_control(kraft_version), voters_control(voters)]
    content = encode_control_batch(controls, timestamp=0, leader_epoch=0)
    offset = len(controls)
    if records:
        content += encode_batch(
            [NewRecord(None, encode_metadata_record(each, record_version(each)), 0) for each in records],
            base_offset=offset,
            leader_epoch=0,
        )
        offset += len(records)
    footer = [(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0).encode(0))]
    return content + encode_control_batch(footer, timestamp=0, base_offset=offset, leader_epoch=0)


def snapshot_controls(snapshot: SnapshotId, data: bytes) -> Iterator[LogControl]:
    """The voters and kraft.version of a snapshot, at the offset before its end."""
    for control in log_controls(data):
        yield control._replace(offset=snapshot.end_offset - 1)


def log_controls(batches: Buffer) -> Iterator[LogControl]:
    """The voters and kraft.version records in whole batches."""
    for position, header in iterate_headers(batches):
        if header.is_control:
            yield from controls_of(decode_records(batches, position))


def snapshot_records(data: bytes) -> list[Message]:
    """The metadata records of a snapshot."""
    found: list[Message] = []
    for position, header in iterate_headers(data):
        if not header.is_control:
            found += [
                decode_metadata_record(record.value or b"")
                for record in decode_records(memoryview(data), position)
            ]
    return found
