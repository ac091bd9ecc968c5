"""Signals from a topic and from a file.

A topic's signals are done when their place stands in the connector's own offset, with what they have led to;
the group has a copy of the place. A file is taken by renaming it, and removed when the offset names it: what
is written between the two is the next file. So none is lost by a kill, and none is carried out twice.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla.client.access import ClusterAccess
from ottla.connect.cdc.core.progress import Progress
from ottla.connect.cdc.core.signals import MAX_CHARACTERS

MAX_AT_ONCE: Final = 1000
MAX_FILE_BYTES: Final = 16 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Received:
    """A signal's text. offset: its place in the topic; file: the mark of the file that it ends."""

    text: str | None
    offset: int | None = None
    file: str | None = None


class SignalChannel(Protocol):
    """Where signals come from while a connector runs. Used by one thread."""

    def read(self) -> Sequence[Received]:
        """The signals that are there now."""

    def saved(self, progress: Progress) -> None:
        """Kafka has an offset with this progress."""

    def close(self) -> None:
        """Give it up."""


class KafkaChannel:
    """Partition 0 of a topic: records whose key is the connector's topic.prefix."""

    def __init__(self, access: ClusterAccess, topic: str, group: str, key: str, after: int | None) -> None:
        """after: the offset of the last signal that is done; None: the group's place, or the beginning."""
        self._topic, self._key = topic, key
        self._saved = after
        self._told_of: int | None = None
        self._consumer = Consumer(
            access.librdkafka(
                {
                    "group.id": group,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed",
                    "topic.metadata.refresh.interval.ms": 5000,
                    "log_level": 2,
                }
            )
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_STORED if after is None else after + 1)])

    def read(self) -> Sequence[Received]:
        """See SignalChannel."""
        found = []
        for message in self._consumer.consume(MAX_AT_ONCE, 0):
            problem = message.error()
            if problem is not None:
                self._tell(problem)
                continue
            offset = message.offset()
            assert offset is not None
            found.append(Received(self._text(message), offset))
        return found

    def _text(self, message: Message) -> str | None:
        key, value = message.key() or b"", message.value()
        if key.decode("utf-8", "replace") != self._key:
            _log.info("a record of %s is not for this connector: its key is %r", self._topic, key)
            return None
        if value is None or len(value) > MAX_CHARACTERS:
            return None
        return value.decode("utf-8", "replace")

    def _tell(self, problem: KafkaError) -> None:
        if problem.code() != self._told_of:
            _log.warning("signals of %s can't be read now: %s", self._topic, problem.str())
        self._told_of = problem.code()

    def saved(self, progress: Progress) -> None:
        """See SignalChannel."""
        offset = progress.signal_offset
        if offset is None or (self._saved is not None and offset <= self._saved):
            return
        self._saved = offset
        try:
            self._consumer.commit(offsets=[TopicPartition(self._topic, 0, offset + 1)], asynchronous=True)
        except KafkaException as problem:
            _log.warning("the group's place in %s is not written: %s", self._topic, problem)

    def close(self) -> None:
        """See SignalChannel."""
        self._consumer.close()


class FileChannel:
    """The lines of a file, which is taken away as it is read."""

    def __init__(self, path: Path, done: str | None) -> None:
        """done: the mark of the file that was read last, as the offset has it."""
        self._path = path
        self._taken = path.with_name(path.name + ".taken")
        self._done = done
        self._open: str | None = None

    def read(self) -> Sequence[Received]:
        """See SignalChannel."""
        if self._open is not None:
            return ()
        try:
            if not self._taken.exists():
                if not self._path.is_file() or self._path.stat().st_size == 0:
                    return ()
                os.rename(self._path, self._taken)
            found = self._taken.stat()
            mark = f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"
            if mark == self._done or found.st_size > MAX_FILE_BYTES:
                if mark != self._done:
                    _log.warning("%s is larger than %d bytes: it is not read", self._path, MAX_FILE_BYTES)
                self._taken.unlink()
                return ()
            lines = self._taken.read_text("utf-8", "replace").splitlines()
        except OSError as problem:
            _log.warning("the file of signals can't be read: %s", problem)
            return ()
        self._open = mark
        return [*(Received(line) for line in lines if line.strip()), Received(None, file=mark)]

    def saved(self, progress: Progress) -> None:
        """See SignalChannel."""
        if self._open is not None and progress.signal_file == self._open:
            self._done, self._open = self._open, None
            self._taken.unlink(missing_ok=True)

    def close(self) -> None:
        """See SignalChannel."""
