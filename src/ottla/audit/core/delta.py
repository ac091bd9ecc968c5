"""The records of `_audit_counts`: what a counter has seen in a span of one partition, and how far it came.

A delta holds the counts of the offsets from `start` to the one before `stop`, in one record. That makes the
counter's progress exactly once without a transaction: the position of a partition is the largest `stop` of
the deltas that follow each other without a gap, and a delta that does not begin at the position is left out.
A counter that was killed before its record was written counts the span again; one that was killed behind it
goes on after it; of two counters at once, the first one to write wins, since all deltas of a partition lie
in one partition of the topic. A `recount` replaces the counts of spans that are known from headers only.

JSON, with the counts of sequences as compressed pages in base64. The parser's limits hold against a record of
anybody who may write to the topic.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.audit.core.id_counts import PAGE, IdCounts
from ottla.client.audit.mark import LAST_BUCKET_MS, MOST_SEQUENCES, StreamBucket
from ottla.client.audit.reports import MalformedReport, whole

VERSION: Final = 1
MOST_BYTES: Final = 8 << 20
MOST_PAGES: Final = MOST_SEQUENCES // PAGE
_LARGEST: Final = (1 << 63) - 1
_LAST_MS: Final = LAST_BUCKET_MS + 86_400_000


class Mode(enum.StrEnum):
    """How a span was counted."""

    RECORDS = "records"
    HEADERS = "headers"
    RECOUNT = "recount"


@dataclass(slots=True)
class StreamCounts:
    """What was seen of one bucket of one stream. late: records behind ones of much later buckets."""

    counts: IdCounts = field(default_factory=IdCounts)
    late: int = 0


@dataclass(slots=True)
class Bucket:
    """What was seen of one bucket without marks. estimated: by headers, of those records whose bucket is not
    certain.
    """

    counted: int = 0
    late: int = 0
    estimated: int = 0


@dataclass(slots=True)
class Delta:
    """What is in a span of one partition.

    watermark_ms: the largest timestamp up to its end; -1 without any. holes: (first bucket, last bucket,
    offsets that have no record any more). counted_at_ms: when. topic_id: a topic that was made again under
    its name begins at offset 0 again.
    """

    tier: str
    topic: str
    partition: int
    start: int
    stop: int
    mode: Mode
    bucket_ms: int
    watermark_ms: int = -1
    counted_at_ms: int = 0
    streams: dict[StreamBucket, StreamCounts] = field(default_factory=dict)
    buckets: dict[int, Bucket] = field(default_factory=dict)
    holes: list[tuple[int, int, int]] = field(default_factory=list)
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A counter has seen all that its tier had at a time: the topics' partitions, each to its end."""

    tier: str
    at_ms: int


def delta_key(delta: Delta) -> bytes:
    """The same for all deltas of a partition: so they lie in one partition, in their order."""
    return f"{delta.tier}/{delta.topic}/{delta.partition}".encode()


def caught_up_key(tier: str) -> bytes:
    """The key of a tier's news about how far its counter is."""
    return f"{tier}/".encode()


def caught_up_value(news: CaughtUp) -> bytes:
    """The news as JSON."""
    return json.dumps({"v": VERSION, "tier": news.tier, "caught_up_ms": news.at_ms}).encode()


def delta_value(delta: Delta) -> bytes:
    """The delta as JSON."""
    return json.dumps(
        {
            "v": VERSION,
            "tier": delta.tier,
            "topic": delta.topic,
            "topic_id": delta.topic_id,
            "partition": delta.partition,
            "start": delta.start,
            "stop": delta.stop,
            "mode": delta.mode.value,
            "bucket_ms": delta.bucket_ms,
            "watermark_ms": delta.watermark_ms,
            "counted_at_ms": delta.counted_at_ms,
            "streams": [
                [str(of.instance), of.stream, of.bucket_start_ms, each.late, _pages(each.counts)]
                for of, each in delta.streams.items()
            ],
            "buckets": [
                [start_ms, each.counted, each.late, each.estimated]
                for start_ms, each in delta.buckets.items()
            ],
            "holes": delta.holes,
        },
        separators=(",", ":"),
    ).encode()


def parse_counts_record(value: bytes | None) -> Delta | CaughtUp | None:
    """What a record of the topic says; None for a tombstone. Raises MalformedReport."""
    if value is None:
        return None
    if len(value) > MOST_BYTES:
        raise MalformedReport(f"a record of {len(value)} bytes is longer than {MOST_BYTES}")
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError) as problem:
        raise MalformedReport(f"a record of counts is not JSON: {problem}") from None
    if not isinstance(fields, dict):
        raise MalformedReport("a record of counts is a JSON object")
    if whole(fields, "v", 1, _LARGEST) > VERSION:
        raise MalformedReport(f"a record of counts has a version newer than {VERSION}")
    if "caught_up_ms" in fields:
        return CaughtUp(_name(fields, "tier"), whole(fields, "caught_up_ms", 0, _LAST_MS))
    try:
        return _delta(fields)
    except (TypeError, ValueError, AttributeError) as problem:
        raise MalformedReport(f"a record of counts is malformed: {problem}") from None


def _delta(fields: Mapping[str, Any]) -> Delta:
    start = whole(fields, "start", 0, _LARGEST)
    delta = Delta(
        _name(fields, "tier"),
        _name(fields, "topic"),
        whole(fields, "partition", 0, (1 << 31) - 1),
        start,
        whole(fields, "stop", start, _LARGEST),
        Mode(fields["mode"] if isinstance(fields.get("mode"), str) else ""),
        whole(fields, "bucket_ms", 1_000, 86_400_000),
        whole(fields, "watermark_ms", -1, _LARGEST),
        whole(fields, "counted_at_ms", 0, _LARGEST),
        topic_id=_topic_id(fields.get("topic_id", "")),
    )
    for instance, stream, start_ms, late, pages in _rows(fields, "streams"):
        of = StreamBucket(
            uuid.UUID(instance), _number(stream, (1 << 32) - 1), _number(start_ms, LAST_BUCKET_MS)
        )
        delta.streams[of] = StreamCounts(_counts(pages), _number(late, _LARGEST))
    for start_ms, counted, late, estimated in _rows(fields, "buckets"):
        delta.buckets[_number(start_ms, LAST_BUCKET_MS)] = Bucket(
            _number(counted, _LARGEST), _number(late, _LARGEST), _number(estimated, _LARGEST)
        )
    for first, last, count in _rows(fields, "holes"):
        delta.holes.append(
            (_number(first, LAST_BUCKET_MS), _number(last, LAST_BUCKET_MS), _number(count, _LARGEST))
        )
    return delta


def _rows(fields: Mapping[str, Any], name: str) -> list[Any]:
    rows = fields.get(name)
    if not isinstance(rows, list):
        raise ValueError(f"{name} is not a list")
    return rows


def _number(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r} is not a whole number from 0 to {most}")
    return value


def _name(fields: Mapping[str, Any], name: str) -> str:
    text = fields.get(name)
    if not isinstance(text, str) or not 1 <= len(text) <= 255:
        raise MalformedReport(f"{name} is not a text of 1 to 255")
    return text


def _topic_id(text: Any) -> str:
    if not isinstance(text, str) or len(text) > 36:
        raise ValueError("topic_id is not a text of up to 36")
    return text


def _pages(counts: IdCounts) -> list[list[Any]]:
    """Runs of pages that follow each other: the number of the first, and all of them compressed."""
    runs: list[tuple[int, list[bytes]]] = []
    for number in sorted(counts.pages):
        if runs and runs[-1][0] + len(runs[-1][1]) == number:
            runs[-1][1].append(bytes(counts.pages[number]))
        else:
            runs.append((number, [bytes(counts.pages[number])]))
    return [[number, base64.b64encode(zlib.compress(b"".join(pages), 1)).decode()] for number, pages in runs]


def _counts(runs: Any) -> IdCounts:
    counts = IdCounts()
    if not isinstance(runs, list):
        raise ValueError("the pages are not a list")
    for number, text in runs:
        first = _number(number, MOST_PAGES - 1)
        try:
            expander = zlib.decompressobj()
            most = (MOST_PAGES - first) * PAGE
            data = expander.decompress(base64.b64decode(text, validate=True), most)
        except (binascii.Error, zlib.error) as problem:
            raise ValueError(f"pages can't be read: {problem}") from None
        if not expander.eof or len(data) % PAGE:
            raise ValueError("pages are cut, or too many")
        for at in range(0, len(data), PAGE):
            counts.add_page(first + at // PAGE, data[at : at + PAGE])
    return counts
