"""The records of `_audit`: what a producer says that it has sent for one bucket of time to one topic.

A report is cumulative: it tells how many records the instance has sent for this bucket so far, so that a
newer one takes the place of an older one. The key names instance, stream and bucket: the topic may be
compacted, and repeated, reordered or mirrored reports count once, since the largest number is the newest.

Key and value are JSON, so that producers in any language can report. Fields that are not known here are left
alone; a version above 1 is refused, since its numbers may mean something else.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.audit.mark import LAST_BUCKET_MS, MOST_SEQUENCES, MS_A_SECOND, StreamBucket

REPORTS_TOPIC: Final = "_audit"
VERSION: Final = 1
MOST_BYTES: Final = 16_384
MOST_NAME_LENGTH: Final = 255
DEFAULT_BUCKET_MS: Final = 600_000
MOST_BUCKET_MS: Final = 86_400_000
_LARGEST: Final = 1 << 53
"""Numbers beyond it are not whole in every reader of JSON."""


class MalformedReport(ValueError):
    """A record of `_audit` that can't be read, and why."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one instance has sent for one bucket of one topic.

    sent: records so far. number: of the report, rising. at_ms: when it was made. is_final: the instance has
    ended and sends no more.
    """

    tier: str
    host: str
    client: str
    topic: str
    of: StreamBucket
    bucket_ms: int
    sent: int
    number: int
    at_ms: int
    is_final: bool = False

    @property
    def bucket_end_ms(self) -> int:
        """The first millisecond behind the bucket."""
        return self.of.bucket_start_ms + self.bucket_ms


def report_key(report: Report) -> bytes:
    """The same for all reports of one bucket of one stream."""
    return f"{report.of.instance}/{report.of.stream}/{report.of.bucket_start_ms}".encode()


def report_value(report: Report) -> bytes:
    """The report as JSON."""
    return json.dumps(
        {
            "v": VERSION,
            "tier": report.tier,
            "host": report.host,
            "client": report.client,
            "topic": report.topic,
            "instance": str(report.of.instance),
            "stream": report.of.stream,
            "bucket_start_ms": report.of.bucket_start_ms,
            "bucket_ms": report.bucket_ms,
            "sent": report.sent,
            "number": report.number,
            "at_ms": report.at_ms,
            "final": report.is_final,
        },
        separators=(",", ":"),
    ).encode()


def parse_report(value: bytes | None) -> Report | None:
    """The report of a record's value; None for a tombstone. Raises MalformedReport."""
    if value is None:
        return None
    if len(value) > MOST_BYTES:
        raise MalformedReport(f"a report of {len(value)} bytes is longer than {MOST_BYTES}")
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError) as problem:
        raise MalformedReport(f"a report is not JSON: {problem}") from None
    if not isinstance(fields, dict):
        raise MalformedReport("a report is a JSON object")
    version = whole(fields, "v", 1, _LARGEST)
    if version > VERSION:
        raise MalformedReport(f"a report has version {version}, newer than {VERSION}")
    return Report(
        tier=_text(fields, "tier"),
        host=_text(fields, "host"),
        client=_text(fields, "client", least=0),
        topic=_text(fields, "topic"),
        of=StreamBucket(
            _instance(fields),
            whole(fields, "stream", 0, (1 << 32) - 1),
            _seconds(fields, "bucket_start_ms", 0, LAST_BUCKET_MS),
        ),
        bucket_ms=_seconds(fields, "bucket_ms", MS_A_SECOND, MOST_BUCKET_MS),
        sent=whole(fields, "sent", 0, MOST_SEQUENCES),
        number=whole(fields, "number", 0, _LARGEST),
        at_ms=whole(fields, "at_ms", 0, _LARGEST),
        is_final=fields.get("final") is True,
    )


def whole(fields: Mapping[str, Any], name: str, least: int, most: int) -> int:
    """A field that is a whole number from `least` to `most`. Raises MalformedReport."""
    number = fields.get(name)
    if type(number) is not int or not least <= number <= most:
        raise MalformedReport(f"{name} is {_shown(number)}, not a whole number from {least} to {most}")
    return number


def _seconds(fields: Mapping[str, Any], name: str, least: int, most: int) -> int:
    number = whole(fields, name, least, most)
    if number % MS_A_SECOND:
        raise MalformedReport(f"{name} is {number}, not whole seconds")
    return number


def _text(fields: Mapping[str, Any], name: str, least: int = 1) -> str:
    text = fields.get(name)
    if not isinstance(text, str) or not least <= len(text) <= MOST_NAME_LENGTH:
        raise MalformedReport(f"{name} is {_shown(text)}, not a text of {least} to {MOST_NAME_LENGTH}")
    return text


def _instance(fields: Mapping[str, Any]) -> uuid.UUID:
    try:
        return uuid.UUID(fields.get("instance"))
    except (ValueError, TypeError, AttributeError):
        raise MalformedReport(f"instance is {_shown(fields.get('instance'))}, not a UUID") from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
