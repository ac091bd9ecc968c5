"""A source task: reads its source partitions in turn, and hands records over with the places behind them."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.client.audit.producer import AuditedProducer
from ottla.client.cluster import KafkaCluster
from ottla.config.errors import ConfigError
from ottla.connect.data.record import (
    Record,
    SourceBatch,
    SourceOffset,
    SourcePartition,
    SourceProgress,
    SourceRecord,
)
from ottla.connect.host.clients import admin_access, overrides_producer, producer, transactional_id
from ottla.connect.host.control import Control
from ottla.connect.host.conversion import Conversion, Encode
from ottla.connect.host.deliveries import AtLeastOnce, Delivery, ExactlyOnce, Placed, Sending
from ottla.connect.host.errors import SOURCE_TASK, ErrorHandler, Failure, Retries, Stage, Stopped, TaskFailed
from ottla.connect.host.figures import OF_CONNECTOR, FigureTeller
from ottla.connect.host.messages import Paused, Running, Start, Topics
from ottla.connect.host.offset_records import key_bytes, value_bytes
from ottla.connect.host.offset_store import ensure_topic, offset_file, offset_of, offset_topics, read_offsets
from ottla.connect.host.producing import Outgoing, drain, produced
from ottla.connect.host.runner import Tell
from ottla.connect.host.settings import (
    BOUNDARY,
    FLUSH_INTERVAL_MS,
    FLUSH_TIMEOUT_MS,
    TOPIC_CREATION,
    Boundary,
    Tolerance,
    connector_settings,
    error_settings,
    exactly_once,
    worker_settings,
)
from ottla.connect.host.topic_creation import TopicCreation, creation_groups
from ottla.connect.plugins.api import (
    DefinesTransactions,
    RetriableError,
    SourceConnector,
    TellsFigures,
    TransactionEnd,
)
from ottla.connect.plugins.definitions import BOUNDARY_INTERVAL

IDLE_SECONDS: Final = 0.02
"""The pause after a turn in which no source partition had anything; it grows to the longest."""
LONGEST_IDLE_SECONDS: Final = 0.2
PAUSED_SECONDS: Final = 3600.0
INIT_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


class _Reader:
    """One source partition: its iterator, the place that it goes on from, and its pause after an error."""

    __slots__ = ("batches", "offset", "partition", "resume_at", "retries")

    def __init__(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        self.partition = partition
        self.offset = offset
        self.batches: Iterator[Sequence[SourceRecord]] | None = None
        self.retries: Retries | None = None
        self.resume_at = 0.0


class SourceTask:
    """One run of a source task, in the thread that calls `run`."""

    def __init__(
        self,
        start: Start,
        tell: Tell,
        control: Control,
        connector: SourceConnector,
        conversion: Conversion,
    ) -> None:
        """Raises ConfigError, ClusterError, TaskFailed."""
        self._start = start
        self._tell = tell
        self._control = control
        self._connector = connector
        self._conversion = conversion
        settings, worker = connector_settings(start), worker_settings(start)
        name = f"{start.run.connector}-{start.run.task}"
        self._errors: ErrorHandler[SourceRecord] = ErrorHandler(
            error_settings(settings), name, control.rest, describe
        )
        groups = creation_groups(start.config, settings) if worker[TOPIC_CREATION] else ()
        self._creation = TopicCreation(groups, self._cluster)
        self._boundary = settings[BOUNDARY]
        self._sending = Sending(self._skip_refused, control)
        self._topics: set[str] = set()
        self._encoders: dict[tuple[bool, int], Encode | None] = {}
        self._schemas: list[Any] = []
        self._figures = FigureTeller(start.run, tell, self._current_figures)
        self._offsets_producer: Producer | None = None
        if exactly_once(start.worker) and offset_file(start) is None:
            self._delivery: Delivery = self._exactly_once(settings, worker)
            # what an older run of this task had in flight is committed or aborted by now, and never again
            offsets = read_offsets(start)
        else:
            self._delivery = self._at_least_once(worker)
            offsets = list(start.offsets)
        self._readers = [_Reader(each, offset_of(offsets, each)) for each in start.partitions]

    # -- made once ------------------------------------------------------------------------------------

    def _exactly_once(self, settings: Any, worker: Any) -> ExactlyOnce:
        start = self._start
        interval: int | None = 0
        match self._boundary:
            case Boundary.INTERVAL:
                given = settings[BOUNDARY_INTERVAL]
                interval = worker[FLUSH_INTERVAL_MS] if given is None else given
                interval = max(interval or 0, 1)
            case Boundary.CONNECTOR:
                interval = None
                if not isinstance(self._connector, DefinesTransactions):
                    raise ConfigError(
                        "The connector does not support connector-defined transaction boundaries with the "
                        "given configuration. Please reconfigure it to use a different transaction boundary "
                        "definition."
                    )
        topic = offset_topics(start).own
        ensure_topic(start, topic, worker)
        self._sending.producer = producer(
            start, self._sending.on_error, transactional_id=transactional_id(start), audited=True
        )
        self._fence_older_runs()
        return ExactlyOnce(
            start.run.connector, self._sending, self._control, topic.name, interval, self._committed
        )

    def _fence_older_runs(self) -> None:
        while not self._control.stopping:
            try:
                self._sending.producer.init_transactions(INIT_SECONDS)
                return
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                if not error.retriable():
                    raise
                _log.warning("the transactional id is not ready yet: %s", error.str())
        raise Stopped

    def _at_least_once(self, worker: Any) -> AtLeastOnce:
        start = self._start
        file = offset_file(start)
        connector = start.run.connector
        self._sending.producer = producer(start, self._sending.on_error, audited=True)
        if file is not None:
            store: Callable[[Sequence[Placed]], None] = functools.partial(file.write, connector)
        else:
            topic = offset_topics(start).own
            ensure_topic(start, topic, worker)
            store = self._topic_store(topic.name, topic.of_worker)
        return AtLeastOnce(
            connector,
            self._sending,
            self._control,
            worker[FLUSH_INTERVAL_MS],
            worker[FLUSH_TIMEOUT_MS],
            store,
            self._committed,
        )

    def _topic_store(self, topic: str, of_worker: bool) -> Callable[[Sequence[Placed]], None]:
        """Writes offsets: with the records' producer, unless that is not the worker's and their topic is."""
        start, problems = self._start, list[KafkaError]()
        if of_worker and overrides_producer(start.config):
            client = producer(
                start,
                lambda problem, _: problems.append(problem),
                client_id=f"connector-offset-producer-{start.run.connector}-{start.run.task}",
                of_worker=True,
            )
            self._offsets_producer = client
        else:
            client = self._sending.producer

        def refused(problem: KafkaError | None, _: Message) -> None:
            if problem is not None:
                problems.append(problem)

        def store(places: Sequence[Placed]) -> None:
            for partition, offset in places:
                key = key_bytes(start.run.connector, partition)
                own = Outgoing(topic, value_bytes(offset), key)
                produced(client, own, refused=refused, is_own=True)
            if not drain(client, lambda: not self._control.stopping):
                drain(client, seconds=INIT_SECONDS)
            if problems or len(client):
                reason = problems[0].str() if problems else "the cluster does not answer"
                raise TaskFailed(f"the offsets can't be written to topic {topic}: {reason}")

        return store

    def _cluster(self) -> KafkaCluster:
        where = admin_access(self._start)
        return KafkaCluster(where.bootstrap, dict(where.properties))

    # -- the run --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Read and send until the worker says stop, or all partitions are read. Raises what ends the task."""
        run = self._start.run
        try:
            if not self._control.paused:
                self._tell(Running(run))
            self._loop()
            self._delivery.rest()
        except Stopped:
            # within a batch, of which a transaction would commit a part without the place behind it
            self._delivery.abandon()
        except BaseException:
            self._delivery.abandon()
            raise
        finally:
            self._close()

    def _loop(self) -> None:
        idle = IDLE_SECONDS
        while self._readers and not self._control.stopping:
            if self._control.paused:
                self._rest()
                continue
            found = False
            for reader in list(self._readers):
                if not self._control.goes_on():
                    break
                found |= self._turn(reader)
            self._figures.tick()
            if found:
                idle = IDLE_SECONDS
                continue
            self._sending.producer.poll(0)
            self._sending.require()
            self._delivery.tick()
            self._control.wait(idle)
            idle = min(idle * 1.5, LONGEST_IDLE_SECONDS)

    def _rest(self) -> None:
        self._delivery.rest()
        self._tell(Paused(self._start.run))
        while self._control.paused and self._control.wait(PAUSED_SECONDS):
            pass
        if not self._control.stopping:
            self._tell(Running(self._start.run))

    def _turn(self, reader: _Reader) -> bool:
        """Take a batch of a source partition; whether there was one."""
        if reader.resume_at > time.monotonic():
            return False
        try:
            if reader.batches is None:
                reader.batches = self._connector.read(reader.partition, reader.offset)
            batch = next(reader.batches, None)
        except RetriableError as problem:
            self._postpone(reader, problem)
            return False
        except Exception as problem:
            raise TaskFailed(
                f"the source partition {dict(reader.partition)} can't be read after offset "
                f"{None if reader.offset is None else dict(reader.offset)}: {problem}"
            ) from problem
        reader.retries = None
        if batch is None:
            _log.info("the source partition %s is read to its end", dict(reader.partition))
            self._readers.remove(reader)
            return True
        if not batch:
            if isinstance(batch, SourceProgress):
                self._reached(reader, batch.source_partition, batch.source_offset)
            return False
        self._send(reader, batch)
        return True

    def _postpone(self, reader: _Reader, problem: RetriableError) -> None:
        """The source is away: read again from the last place after a pause, without an end as in Connect."""
        reader.batches = None
        if reader.retries is None:
            reader.retries = Retries(self._errors.settings, None)
        delay = reader.retries.next_delay_seconds() or 0.0
        reader.resume_at = time.monotonic() + delay
        _log.warning(
            "the source partition %s is read again in %.1f s: %s", dict(reader.partition), delay, problem
        )

    # -- batches --------------------------------------------------------------------------------------

    def _send(self, reader: _Reader, batch: Sequence[SourceRecord]) -> None:
        self._figures.read += len(batch)
        if isinstance(batch, SourceBatch) and self._send_columns(batch):
            self._reached(reader, batch.source_partition, batch.place_after(len(batch) - 1))
        else:
            self._send_each(reader, batch)
        end: TransactionEnd | None = None
        if self._boundary is Boundary.CONNECTOR and isinstance(self._connector, DefinesTransactions):
            end = self._connector.transaction_end()
        self._delivery.after_batch(end)

    def _reached(self, reader: _Reader, partition: SourcePartition, offset: SourceOffset) -> None:
        if offset:
            self._delivery.reached(partition, offset)
            if partition == reader.partition:
                reader.offset = offset

    def _send_columns(self, batch: SourceBatch) -> bool:
        """Send a batch by columns; False where its records have to be made."""
        encode_value = self._encoder(False, batch.value_schema)
        if encode_value is None:
            return False
        keys: Sequence[bytes | None] | None = None
        if batch.keys is not None:
            encode_key = self._encoder(True, batch.key_schema)
            keys = None if encode_key is None else encode_key(batch.keys)
            if keys is None:
                return False
        elif self._key_of_none() is not None:
            return False
        values = encode_value(batch.values)
        if values is None:
            return False
        self._meet(batch.topic)
        try:
            self._delivery.send_columns(batch.topic, values, keys, batch.timestamps_ms)
        except KafkaException as problem:
            raise self._unsent(problem, f"topic {batch.topic}") from problem
        return True

    def _encoder(self, is_key: bool, schema: Any) -> Encode | None:
        wanted = (is_key, id(schema))
        if wanted not in self._encoders:
            chosen = self._conversion.key if is_key else self._conversion.value
            if len(self._encoders) > 1000:
                return None  # schemas that are made anew for each batch
            self._encoders[wanted] = self._conversion.column_encoder(chosen, schema)
            self._schemas.append(schema)  # an id is unique as long as its object is there
        return self._encoders[wanted]

    def _key_of_none(self) -> bytes | None:
        return self._conversion.key.converter.from_connect("", None, None)

    def _send_each(self, reader: _Reader, batch: Sequence[SourceRecord]) -> None:
        handle, convert, send = self._errors.run, self._conversion.to_bytes, self._delivery.send
        before: SourceRecord | None = None
        for record in batch:
            found = handle(convert, record)
            if before is not None and record.source_partition != before.source_partition:
                self._reached_record(reader, before)
            before = record
            if found is None:
                continue
            if found.topic not in self._topics:
                self._meet(found.topic)
            try:
                send(found)
            except KafkaException as problem:
                self._refused_at_once(record, found, problem)
        self._reached_record(reader, before)

    def _reached_record(self, reader: _Reader, record: SourceRecord | None) -> None:
        if record is not None:
            self._reached(reader, record.source_partition, record.source_offset)

    def _refused_at_once(self, record: SourceRecord, found: Outgoing, problem: KafkaException) -> None:
        """A record that the client does not even send: too large, or for a partition that is not there."""
        if isinstance(self._delivery, ExactlyOnce) or problem.args[0].fatal():
            raise self._unsent(problem, f"topic {found.topic}, {describe(record)}") from problem
        self._errors.failed(record, Failure(Stage.KAFKA_PRODUCE, SOURCE_TASK, problem))

    def _unsent(self, problem: KafkaException, where: str) -> TaskFailed:
        return TaskFailed(
            f"Unrecoverable exception trying to send a record to {where}: {problem.args[0].str()}"
        )

    def _skip_refused(self, problem: KafkaError, message: Message) -> bool:
        if self._errors.settings.tolerance is Tolerance.NONE or problem.fatal():
            return False
        if isinstance(getattr(self, "_delivery", None), ExactlyOnce):
            return False
        record = SourceRecord(_sent_record(message))
        self._errors.failed(record, Failure(Stage.KAFKA_PRODUCE, SOURCE_TASK, KafkaException(problem)))
        return True

    def _meet(self, topic: str) -> None:
        """Before the first record for a topic."""
        if topic not in self._topics:
            self._creation.require(topic)
            self._topics.add(topic)
            self._tell(Topics(self._start.run, [topic]))

    def _committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        try:
            self._connector.committed(partition, offset)
        except Exception:
            _log.exception("the connector failed as it was told of a committed offset")

    def _current_figures(self) -> dict[str, float]:
        return {
            "source-record-poll-total": self._figures.read,
            "source-record-write-total": self._sending.sent,
            "source-record-active-count": len(self._sending.producer),
            **self._errors.figures,
            **self._delivery.figures,
            **self._own_figures(),
        }

    def _own_figures(self) -> dict[str, float]:
        connector = self._connector
        if not isinstance(connector, TellsFigures):
            return {}
        try:
            return {f"{OF_CONNECTOR}{name}": float(value) for name, value in connector.figures().items()}
        except Exception:
            _log.exception("the connector's figures can't be told")
            return {}

    def _close(self) -> None:
        for reader in self._readers:
            close = getattr(reader.batches, "close", None)
            if close is not None:
                try:
                    close()
                except Exception:
                    _log.exception("a source partition's iterator failed as it was closed")
        self._figures.tell()
        self._delivery.close()
        if isinstance(self._sending.producer, AuditedProducer):
            self._sending.producer.end_reports()
        if self._offsets_producer is not None:
            self._offsets_producer.purge()


def describe(record: SourceRecord) -> str:
    """A source's record in the words of a trace: where it comes from, not what it holds."""
    partition, offset = dict(record.source_partition), dict(record.source_offset)
    return f"source partition {partition}, source offset {offset}, for topic {record.record.topic}"


def _sent_record(message: Message) -> Record:
    return Record(
        message.topic() or "", message.partition(), message.key(), None, message.value(), None, None
    )
