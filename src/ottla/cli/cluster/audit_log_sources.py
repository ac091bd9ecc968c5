"""Where `ottla audit-log` reads from: a cluster, the data directory of a stopped broker, or lines of JSON.

Records come in batches, in the order of the log. A line of a file is a record as `ottla audit-log list
--json` writes it, with its offset, or a record's value alone.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from ottla.cli.cluster.any_broker import CommandError
from ottla.client.access import ClusterAccess
from ottla.client.admin.partition_offsets import EARLIEST
from ottla.client.cluster_requests import ClusterRequests, TopicPartition, topic_error
from ottla.client.records.offset_lookup import offsets_at
from ottla.client.records.reader import RecordReader, Span
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import decode_records, iterate_headers
from ottla.security.audit_chain import AUDIT_TOPIC, canonical

PARTITION: Final = TopicPartition(AUDIT_TOPIC, 0)
MAX_LINE_BYTES: Final = 4 << 20


class LogEntry(NamedTuple):
    """A record of the log; key and offset are None where they are not known."""

    key: bytes | None
    value: bytes
    offset: int | None


class LogPart(NamedTuple):
    """Some records. start_offset: the log's, None if nothing is known about it."""

    start_offset: int | None
    entries: list[LogEntry]


async def from_cluster(
    cluster: ClusterRequests, access: ClusterAccess, *, since_ms: int | None = None, follow: bool = False
) -> AsyncIterator[LogPart]:
    """The records of a cluster: those of now, or with `follow` without an end. Raises ClusterError.

    since_ms: begin at the first record that is as late.
    """
    (topic,) = await cluster.topics([AUDIT_TOPIC])
    if topic.error_code:
        raise topic_error(AUDIT_TOPIC, topic.error_code)
    start = (await offsets_at(cluster, [PARTITION], EARLIEST))[PARTITION]
    stop = None if follow else (await offsets_at(cluster, [PARTITION]))[PARTITION]
    begin = start
    if since_ms is not None:
        found = (await offsets_at(cluster, [PARTITION], since_ms))[PARTITION]
        if found < 0 and stop is None:
            found = (await offsets_at(cluster, [PARTITION]))[PARTITION]
        if found < 0:
            return
        begin = max(start, found)
    yield LogPart(start, [])
    reader = RecordReader(cluster, access, {PARTITION: Span(begin, stop)})
    try:
        while (part := await reader.next()) is not None:
            entries = [
                LogEntry(record.key, record.value or b"", record.offset)
                for position, header in part.batches
                if not header.is_control
                for record in decode_records(part.data, position)
                if begin <= record.offset and (stop is None or record.offset < stop)
            ]
            yield LogPart(start, entries)
    finally:
        await reader.close()


async def further_partitions(cluster: ClusterRequests) -> list[int]:
    """The partitions with records but the first, which nodes never write to. Raises ClusterError."""
    (topic,) = await cluster.topics([AUDIT_TOPIC])
    others = [
        TopicPartition(AUDIT_TOPIC, each.partition_index)
        for each in topic.partitions
        if each.partition_index != PARTITION.partition
    ]
    if not others:
        return []
    ends = await offsets_at(cluster, others)
    return sorted(each.partition for each in others if ends[each] > 0)


def from_directory(data: Path) -> Iterator[LogPart]:
    """The records in the data directory of a stopped broker. Raises CommandError."""
    directory = data / f"{AUDIT_TOPIC}-{PARTITION.partition}"
    segments = sorted(directory.glob("*.log"))
    if not segments:
        raise CommandError(f"{directory} has no segments: is {data} the data of a broker with the audit log?")
    start = int(segments[0].stem)
    for segment in segments:
        data_bytes = segment.read_bytes()
        try:
            for position, header in iterate_headers(data_bytes):
                if not header.is_control:
                    records = decode_records(data_bytes, position)
                    yield LogPart(start, [LogEntry(one.key, one.value or b"", one.offset) for one in records])
        except CorruptBatch as problem:
            raise CommandError(f"{segment}: {problem}; `ottla log verify` tells more") from None


def from_lines(lines: TextIO) -> Iterator[LogPart]:
    """The records in lines of JSON."""
    start: int | None = None
    while line := lines.readline(MAX_LINE_BYTES):
        text = line.strip()
        if not text:
            continue
        entry = _entry(text)
        if start is None:
            start = entry.offset
        yield LogPart(start, [entry])


def _entry(text: str) -> LogEntry:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if isinstance(fields, dict) and "offset" in fields:
        offset = fields.pop("offset")
        if isinstance(offset, int):
            return LogEntry(None, canonical(fields), offset)
    return LogEntry(None, text.encode("utf-8", "surrogatepass"), None)
