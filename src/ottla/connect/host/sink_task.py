"""A sink task: consumes its group's partitions, writes them, and commits only what the other system keeps."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from ottla.connect.data.record import SinkRecord, TopicPartition
from ottla.connect.host.clients import consumer
from ottla.connect.host.control import Control
from ottla.connect.host.conversion import Conversion
from ottla.connect.host.dead_letters import DeadLetters
from ottla.connect.host.errors import (
    SINK_TASK,
    ErrorHandler,
    Failure,
    Retries,
    Stage,
    Stopped,
    TaskFailed,
    java_class_name,
)
from ottla.connect.host.figures import FigureTeller
from ottla.connect.host.messages import Paused, Running, Start, Topics
from ottla.connect.host.runner import Tell
from ottla.connect.host.settings import (
    FLUSH_INTERVAL_MS,
    connector_settings,
    error_settings,
    topics_of,
    worker_settings,
)
from ottla.connect.host.sink_progress import SinkProgress
from ottla.connect.plugins.api import RecordError, RetriableError, SinkConnector

POLL_SECONDS: Final = 0.5
"""How long the task waits for records before it looks at its orders again."""
PATTERN_SECONDS: Final = 10.0
"""How often topics that match topics.regex are looked for."""
METADATA_SECONDS: Final = 10.0
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_ENDS_TASK: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._FENCED,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._AUTO_OFFSET_RESET,
    }
)

_log = logging.getLogger(__name__)


class SinkTask:
    """One run of a sink task, in the thread that calls `run`, which the group's callbacks come in too."""

    def __init__(
        self,
        start: Start,
        tell: Tell,
        control: Control,
        connector: SinkConnector,
        conversion: Conversion,
    ) -> None:
        """Raises ConfigError, TaskFailed."""
        self._start = start
        self._tell = tell
        self._control = control
        self._connector = connector
        self._conversion = conversion
        settings, worker = connector_settings(start), worker_settings(start)
        errors = error_settings(settings)
        self._wanted = topics_of(settings)
        self._dead: DeadLetters | None = DeadLetters(start, errors) if errors.dead_letter_topic else None
        name = f"{start.run.connector}-{start.run.task}"
        reporters = () if self._dead is None else (self._dead,)
        self._errors: ErrorHandler[Message] = ErrorHandler(errors, name, control.rest, describe, reporters)
        self._interval = worker[FLUSH_INTERVAL_MS] / 1000
        self._next_commit = time.monotonic() + self._interval
        made = consumer(start)
        self._consumer: Consumer = made[0]
        self._incremental, self._most = made[1], made[2]
        self._progress = SinkProgress()
        self._unopened: set[TopicPartition] = set()
        self._open_retries: Retries | None = None
        self._open_at = 0.0
        self._held: list[SinkRecord] = []
        self._held_messages: list[Message] = []
        self._held_retries = Retries.of(errors, without_limit=True)
        self._held_until = 0.0
        self._waiting = False
        self._early: list[Message] = []
        self._resting = False
        self._leaving = False
        self._rebalance_error: BaseException | None = None
        self._topics: set[str] = set()
        self._subscribed: list[str] = []
        self._look_at = 0.0
        self._problems: set[str] = set()
        self._figures = FigureTeller(start.run, tell, self._current_figures)

    # -- the run --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Write records until the worker says stop. Raises what ends the task."""
        try:
            self._resting = self._control.paused
            self._tell(Paused(self._start.run) if self._resting else Running(self._start.run))
            try:
                while not self._control.stopping:
                    self._turn()
            except Stopped:
                pass
            self._leave()
        except BaseException:
            self._commit_before_failure()
            raise
        finally:
            self._close()

    def _turn(self) -> None:
        self._subscribe()
        if self._control.paused != self._resting:
            self._switch()
        if time.monotonic() >= self._next_commit:
            self._commit()
        self._reopen()
        self._take(self._poll(POLL_SECONDS))
        self._figures.tick()

    def _switch(self) -> None:
        """Pause or go on, as the worker wants; the task stays in its group."""
        self._resting = self._control.paused
        if self._resting:
            self._hold_back()
            self._commit()
            self._tell(Paused(self._start.run))
        else:
            self._flow()
            self._tell(Running(self._start.run))

    @property
    def _flows(self) -> bool:
        """Whether records are to come."""
        return not (self._resting or self._waiting or self._unopened)

    def _hold_back(self) -> None:
        """Consume nothing for now, and stay in the group."""
        self._consumer.pause(self._assigned())

    def _flow(self) -> None:
        """Consume again, if nothing else stands against it."""
        if self._flows:
            self._consumer.resume(self._assigned())

    # -- consuming ------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        """Subscribe to the topics, or to those that match the pattern now.

        Java's patterns are not librdkafka's, so they are applied here.
        """
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + PATTERN_SECONDS
        if isinstance(self._wanted, re.Pattern):
            try:
                known = self._consumer.list_topics(timeout=METADATA_SECONDS).topics
            except KafkaException as problem:
                _log.warning("the topics can't be listed now: %s", problem.args[0].str())
                return
            wanted = sorted(each for each in known if self._wanted.fullmatch(each) and each not in _INTERNAL)
        else:
            wanted = list(self._wanted)
            self._look_at = float("inf")
        if wanted != self._subscribed and wanted:
            _log.info("subscribing to %s", ", ".join(wanted))
            self._consumer.subscribe(
                wanted, on_assign=self._assigned_to, on_revoke=self._revoked, on_lost=self._lost
            )
            self._subscribed = wanted
        elif not wanted and self._subscribed:
            self._consumer.unsubscribe()
            self._subscribed = []

    def _poll(self, seconds: float) -> list[Message]:
        """Records, as soon as there are some. Raises what a rebalance has met, too."""
        if not self._subscribed:
            self._control.wait(seconds)
            return []
        seconds = max(0.0, min(seconds, self._next_event() - time.monotonic()))
        found = self._consumer.consume(1, seconds)
        if found and self._most > 1:
            found += self._consumer.consume(self._most - 1, 0)
        if self._rebalance_error is not None:
            error, self._rebalance_error = self._rebalance_error, None
            raise error
        return [each for each in found if self._is_record(each)]

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            # records that were fetched before their partition went to another task
            return (message.topic(), message.partition()) in self._progress.positions
        if error.fatal() or error.code() in _ENDS_TASK:
            raise TaskFailed(f"the records can't be consumed: {error.str()}")
        if error.str() not in self._problems and len(self._problems) < 100:
            self._problems.add(error.str())
            _log.warning("the records can't be consumed now: %s", error.str())
        return False

    # -- writing --------------------------------------------------------------------------------------

    def _take(self, messages: list[Message]) -> None:
        if not self._flows:
            # fetched before the pause took hold
            self._early += messages
            if self._waiting and not self._held:
                self._write_held()  # their partitions are another task's now
            elif self._waiting and not self._resting and not self._unopened and self._is_due():
                self._write_held()
            return
        if self._early:
            messages, self._early = self._early + messages, []
        if messages:
            self._figures.read += len(messages)
            self._problems.clear()
            self._convert(messages)
            self._held_retries = Retries.of(self._errors.settings, without_limit=True)
            self._write_held()

    def _is_due(self) -> bool:
        return time.monotonic() >= self._held_until

    def _next_event(self) -> float:
        """When the task has something to do even if no record comes."""
        found = self._next_commit
        if self._unopened:
            found = min(found, self._open_at)
        elif self._waiting and not self._resting:
            found = min(found, self._held_until)
        return found

    def _convert(self, messages: list[Message]) -> None:
        handle, convert = self._errors.run, self._conversion.to_record
        held, kept = self._held, self._held_messages
        topic: str | None = None
        for message in messages:
            if message.topic() != topic:
                topic = message.topic()
                self._meet(topic or "")
            record = handle(convert, message)
            if record is not None:
                held.append(record)
                kept.append(message)
        self._progress.consumed(messages)

    def _write_held(self) -> None:
        """Write the records that are held. They stay where the other system is away."""
        while self._held:
            try:
                self._connector.write(self._held)
            except RetriableError as problem:
                self._hold(problem)
                return
            except RecordError as problem:
                self._refused(problem)
                continue
            except Exception as problem:
                raise TaskFailed(
                    "Exiting WorkerSinkTask due to unrecoverable exception: "
                    f"{self._connector_class()} failed at {self._batch_words()}: "
                    f"{java_class_name(problem)}: {problem}"
                ) from problem
            self._progress.written(self._held)
            self._held.clear()
            self._held_messages.clear()
        self._progress.batch_done()
        if self._waiting:
            self._waiting = False
            self._flow()

    def _refused(self, problem: RecordError) -> None:
        position = problem.position
        if not 0 <= position < len(self._held):
            raise TaskFailed(
                f"{self._connector_class()} refused record {position} of {len(self._held)}: {problem}"
            ) from problem
        self._progress.written(self._held[:position])
        failed = self._held_messages[position]
        del self._held[: position + 1], self._held_messages[: position + 1]
        self._errors.failed(failed, Failure(Stage.TASK_PUT, SINK_TASK, problem))

    def _hold(self, problem: RetriableError) -> None:
        """The other system is away: consume nothing more, and try again after a pause."""
        delay = self._held_retries.next_delay_seconds()
        if delay is None:
            raise TaskFailed(
                f"{self._connector_class()} could not write {self._batch_words()} within "
                f"errors.retry.timeout={self._errors.settings.retry_timeout_ms} ms: {problem}"
            ) from problem
        self._errors.figures["total-retries"] += 1
        _log.warning("the records are written again in %.1f s: %s", delay, problem)
        self._hold_back()
        self._waiting = True
        self._held_until = time.monotonic() + delay

    def _batch_words(self) -> str:
        ends: dict[TopicPartition, list[int]] = {}
        for each in self._held:
            ends.setdefault(each.place, [each.offset, each.offset])[1] = each.offset
        words = [
            f"topic {topic}, partition {partition}, offset {first}" + (f" to {last}" if last > first else "")
            for (topic, partition), (first, last) in list(ends.items())[:10]
        ]
        return "; ".join(words)

    def _connector_class(self) -> str:
        return self._start.config.get("connector.class", type(self._connector).__name__)

    def _meet(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            self._tell(Topics(self._start.run, [topic]))

    # -- committing -----------------------------------------------------------------------------------

    def _commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Commit what is durable. Raises TaskFailed, and what `flush` raises besides RetriableError."""
        self._next_commit = time.monotonic() + self._interval
        chosen = list(self._progress.positions if partitions is None else partitions)
        if not chosen:
            return
        if self._dead is not None:
            # a record is committed away only once its letter is in the topic
            self._dead.settle()
        try:
            durable = self._connector.flush()
        except RetriableError as problem:
            _log.warning("nothing is committed now, what was written is not durable yet: %s", problem)
            return
        offsets = self._progress.committable(chosen, durable)
        if not offsets:
            return
        try:
            self._consumer.commit(
                offsets=[KafkaPartition(*place, offset) for place, offset in offsets.items()],
                asynchronous=False,
            )
        except KafkaException as problem:
            # the records come again to whoever has the partitions then
            _log.warning("the offsets are not committed: %s", problem.args[0].str())
            return
        self._progress.committed(offsets)

    # -- the group ------------------------------------------------------------------------------------

    def _assigned_to(self, client: Consumer, partitions: list[KafkaPartition]) -> None:
        try:
            self._gain(client, partitions)
        except BaseException as problem:
            self._rebalance_error = problem

    def _gain(self, client: Consumer, partitions: list[KafkaPartition]) -> None:
        places = [_place(each) for each in partitions]
        known = self._try_open(places) if places else {}
        for each in partitions:
            if known is not None and _place(each) in known:
                each.offset = known[_place(each)]
        if self._incremental:
            client.incremental_assign(partitions)
        else:
            client.assign(partitions)
        self._progress.gained(places)
        if known is None:
            self._unopened |= set(places)
        if not self._flows:
            self._hold_back()
        if places:
            _log.info("assigned %s", _words(places))

    def _try_open(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """The offsets of partitions whose place the other system keeps; None where it is away."""
        try:
            found = self._connector.open(places)
        except RetriableError as problem:
            if self._open_retries is None:
                self._open_retries = Retries.of(self._errors.settings, without_limit=True)
            delay = self._open_retries.next_delay_seconds()
            if delay is None:
                raise TaskFailed(
                    f"{self._connector_class()} could not open {_words(places)} within "
                    f"errors.retry.timeout={self._errors.settings.retry_timeout_ms} ms: {problem}"
                ) from problem
            _log.warning("%s is opened again in %.1f s: %s", _words(places), delay, problem)
            self._open_at = time.monotonic() + delay
            return None
        self._open_retries = None
        return found

    def _reopen(self) -> None:
        """Open partitions for which the other system was away when they came."""
        if not self._unopened or time.monotonic() < self._open_at:
            return
        places = sorted(self._unopened)
        known = self._try_open(places)
        if known is None:
            return
        self._unopened.clear()
        for place, offset in known.items():
            self._consumer.seek(KafkaPartition(*place, offset))
            self._early = [each for each in self._early if (each.topic(), each.partition()) != place]
        self._flow()

    def _revoked(self, client: Consumer, partitions: list[KafkaPartition]) -> None:
        places = [_place(each) for each in partitions]
        try:
            opened = [each for each in places if each not in self._unopened]
            if opened and not self._leaving:
                self._commit(opened)
        except BaseException as problem:
            self._rebalance_error = problem
        self._give_up(places)
        if self._incremental:
            client.incremental_unassign(partitions)
        else:
            client.unassign()

    def _lost(self, client: Consumer, partitions: list[KafkaPartition]) -> None:
        places = [_place(each) for each in partitions]
        _log.warning("the group gave %s to others", _words(places))
        self._give_up(places)
        if self._incremental:
            client.incremental_unassign(partitions)
        else:
            client.unassign()

    def _give_up(self, places: Sequence[TopicPartition]) -> None:
        gone = set(places)
        opened = [each for each in places if each not in self._unopened]
        self._unopened -= gone
        self._progress.lost(gone)
        keep = [number for number, each in enumerate(self._held) if each.place not in gone]
        if len(keep) < len(self._held):
            self._held[:] = [self._held[number] for number in keep]
            self._held_messages[:] = [self._held_messages[number] for number in keep]
        self._early = [each for each in self._early if (each.topic(), each.partition()) not in gone]
        if opened and not self._leaving:
            try:
                self._connector.lose(opened)
            except BaseException as problem:
                self._rebalance_error = self._rebalance_error or problem

    def _assigned(self) -> list[KafkaPartition]:
        return [KafkaPartition(*place) for place in self._progress.positions]

    # -- the end --------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Commit and give the partitions up, as the worker wants."""
        opened = [each for each in self._progress.positions if each not in self._unopened]
        self._commit(opened)
        self._leaving = True
        if opened:
            self._connector.lose(opened)

    def _commit_before_failure(self) -> None:
        """What was written before the failure need not come again."""
        try:
            self._commit([each for each in self._progress.positions if each not in self._unopened])
        except BaseException as problem:
            _log.warning("nothing is committed for the failed task: %s", problem)

    def _close(self) -> None:
        self._leaving = True
        self._figures.tell()
        try:
            self._consumer.close()
        except Exception as problem:
            _log.warning("the consumer did not leave its group: %s", problem)
        if self._dead is not None:
            self._dead.close()

    def _current_figures(self) -> dict[str, float]:
        return {
            "sink-record-read-total": self._figures.read,
            "sink-record-send-total": self._progress.sent,
            "partition-count": len(self._progress.positions),
            "lag": self._lag(),
            **self._errors.figures,
        }

    def _lag(self) -> float:
        """Records behind the ends that the client has last heard of."""
        lag = 0
        for place, position in self._progress.positions.items():
            if position is None:
                continue
            try:
                ends = self._consumer.get_watermark_offsets(KafkaPartition(*place), cached=True)
            except (KafkaException, RuntimeError):
                continue
            if ends[1] > position:
                lag += ends[1] - position
        return lag


def _place(partition: KafkaPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


def _words(places: Sequence[TopicPartition]) -> str:
    shown = ", ".join(f"{topic}-{partition}" for topic, partition in places[:20])
    return shown if len(places) <= 20 else f"{shown} and {len(places) - 20} more"


def describe(message: Message) -> str:
    """A consumed record in the words of a trace."""
    return f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
