"""MariaDB's stream with signals in it, and the chunks of incremental snapshots at their places of the log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from ottla.config.settings import Settings
from ottla.connect.cdc.core.envelope import Operation, SnapshotMark
from ottla.connect.cdc.core.incremental import Chunk, ChunkRow
from ottla.connect.cdc.core.progress import Progress, Resumed, progress_of
from ottla.connect.cdc.mariadb.binlog import Event, Header
from ottla.connect.cdc.mariadb.chunks import MariaDbChunks, ReadTable
from ottla.connect.cdc.mariadb.position import Position
from ottla.connect.cdc.mariadb.shapes import Shaping
from ottla.connect.cdc.mariadb.source_block import Moment, source_block
from ottla.connect.cdc.mariadb.translation import EventOptions, Translator
from ottla.connect.cdc.signalling import settings as own
from ottla.connect.cdc.signalling.channels import FileChannel, KafkaChannel, SignalChannel
from ottla.connect.cdc.signalling.signalling import Signalling, SignalOptions
from ottla.connect.data.record import Record, SourceOffset, SourcePartition, SourceRecord

SIGNAL_COLUMNS: Final = 3


class SignalledStream:
    """A translator's records with the snapshot's progress, and those of chunks."""

    def __init__(self, translator: Translator, signalling: Signalling, options: EventOptions) -> None:
        self._translator = translator
        self._signalling = signalling
        self._options = options
        table = signalling.table
        self._topic = None if table is None else options.names.table_topic(*table.split(".", 1))

    def take(self, header: Header, event: Event, now_ns: int) -> Sequence[SourceRecord]:
        """The records of an event, and of a chunk whose place the log has come to."""
        found: list[SourceRecord] = []
        for each in self._translator.take(header, event, now_ns):
            # A row's record has the place behind it: what it leads to stands in its offset.
            if each.record.topic == self._topic:
                self._signal(each.record)
            found += self._signalling.stamped([each])
        return found + self.due()

    def _signal(self, record: Record) -> None:
        value = None if record.value is None else record.value.values
        if value is None or value.get("op") != Operation.CREATE.value or value.get("after") is None:
            return
        row = list(value["after"].values.values())
        if len(row) == SIGNAL_COLUMNS:
            id, type, data = (None if each is None else str(each) for each in row)
            self._signalling.take_row(id, type, data)

    def turn(self) -> None:
        """Take signals from outside, and read a chunk if one is due."""
        self._signalling.turn()

    def due(self) -> list[SourceRecord]:
        """What is to be told now, between two transactions."""
        if not self._translator.is_between:
            return []
        chunk = self._signalling.chunk
        file, end = self._translator.place
        if chunk is not None and Position(file, end).is_behind(chunk.place.file, chunk.place.position):
            self._signalling.passed()
        position = self._translator.position
        moment = Moment(time.time_ns() // 1000, file, end)

        def record(chunk: Chunk, row: ChunkRow) -> Record:
            assert isinstance(chunk.table, ReadTable)
            return self._record(chunk.table, row.row, moment)

        return self._signalling.due(position.offset(), record)

    def _record(self, table: ReadTable, cells: tuple[Any, ...], moment: Moment) -> Record:
        shape = table.shape
        prefix = self._options.names.prefix
        mark = SnapshotMark.INCREMENTAL
        source = source_block(prefix, shape.schema_name, shape.table_name, moment, mark)
        key = shape.key(cells)
        value = shape.event(Operation.READ, None, shape.row(cells), source, moment.time_us * 1000)
        key_schema = None if key is None else shape.key_schema
        return Record(shape.topic, None, key, key_schema, value, shape.envelope, None, self._options.context)

    def stamped_place(self, place: SourceOffset) -> SourceOffset:
        """The offset of a place without records, with the snapshot's progress."""
        return self._signalling.stamped_place(place)

    def stamped(self, record: SourceRecord) -> SourceRecord:
        """A record of the connector itself, with the snapshot's progress."""
        return self._signalling.stamped([record])[0]


@contextmanager
def open_signals(
    settings: Settings,
    options: dict[str, Any],
    shaping: Shaping,
    events: EventOptions,
    partition: SourcePartition,
    offset: SourceOffset | None,
) -> Iterator[Signalling | None]:
    """A run's signals while the block runs; None where the settings have nothing of the kind."""
    resumed = Resumed(Progress()) if offset is None else progress_of(offset)
    channels = settings[own.CHANNELS]
    outside = own.KAFKA in channels or own.FILE in channels
    if not (
        settings[own.COLLECTION] or outside or settings[own.NOTIFICATIONS] or resumed.progress != Progress()
    ):
        yield None
        return
    notifications = settings[own.NOTIFICATIONS]
    chosen = SignalOptions(
        events.names.prefix,
        partition,
        settings[own.COLLECTION],
        own.SOURCE in channels,
        settings[own.POLL_INTERVAL_MS] / 1000,
        settings[own.NOTIFICATION_TOPIC] if own.SINK in notifications else None,
        own.LOG in notifications,
        blocks=False,
    )
    with closing(MariaDbChunks(options, shaping, settings[own.CHUNK_SIZE])) as chunks:
        found = Signalling(
            chosen, chunks, resumed, _channels(settings, events.names.prefix, resumed.progress)
        )
        with closing(found):
            yield found


def _channels(settings: Settings, prefix: str, progress: Progress) -> list[SignalChannel]:
    found: list[SignalChannel] = []
    if own.KAFKA in settings[own.CHANNELS]:
        access, topic = own.signal_access(settings), own.signal_topic(settings, prefix)
        found.append(KafkaChannel(access, topic, settings[own.GROUP], prefix, progress.signal_offset))
    if own.FILE in settings[own.CHANNELS]:
        found.append(FileChannel(Path(settings[own.FILENAME]), progress.signal_file))
    return found
