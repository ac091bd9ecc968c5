"""Offsets in the CSV of kafka-consumer-groups.sh: topic,partition,offset or group,topic,partition,offset.

The first form is one group's. Either tool reads the other's files; names are quoted where they have commas
or quotes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Final

from ottla.client.cluster_requests import TopicPartition
from ottla.config.errors import UserError

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_PARTITION: Final = 2**31 - 1
MAX_OFFSET: Final = 2**63 - 1

_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")

GroupedOffsets = dict[str, dict[TopicPartition, int]]
"""Offsets by group."""


class OffsetsFileError(UserError):
    """Text that is no such CSV; the message names the line."""


def write_offsets(offsets: Mapping[str, Mapping[TopicPartition, int]], *, with_groups: bool) -> str:
    """The lines of a file, with the names of the groups where several were asked for."""
    lines = []
    for group, of_group in offsets.items():
        first = f"{_quoted(group)}," if with_groups else ""
        for partition, offset in sorted(of_group.items()):
            lines.append(f"{first}{_quoted(partition.topic)},{partition.partition},{offset}\n")
    return "".join(lines)


def _quoted(name: str) -> str:
    """A name in quotes, unless it is as plain as most are."""
    if _PLAIN.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def read_offsets(text: str, groups: list[str]) -> GroupedOffsets:
    """The offsets of a file's groups. Lines without a group mean the only one of `groups`.

    Raises OffsetsFileError.
    """
    found: GroupedOffsets = {}
    # the parser's own limit of a field is 128 KiB, no name is longer than 32 KiB
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if not row:
                continue
            group, partition, offset = _row(row, groups, reader.line_num)
            of_group = found.setdefault(group, {})
            if of_group.setdefault(partition, offset) != offset:
                raise OffsetsFileError(f"line {reader.line_num}: {partition} is there twice")
    except csv.Error as problem:
        raise OffsetsFileError(f"line {reader.line_num}: {problem}") from None
    return found


def _row(row: list[str], groups: list[str], line: int) -> tuple[str, TopicPartition, int]:
    if len(row) == 4:
        group, topic, partition, offset = row
    elif len(row) == 3 and len(groups) == 1:
        group, (topic, partition, offset) = groups[0], row
    elif len(row) == 3:
        raise OffsetsFileError(
            f"line {line} names no group, and there is not exactly one on the command line"
        )
    else:
        raise OffsetsFileError(f"line {line} has {len(row)} fields; they are [group,]topic,partition,offset")
    return (
        group,
        TopicPartition(topic, _number(partition, MAX_PARTITION, "partition", line)),
        _number(offset, MAX_OFFSET, "offset", line),
    )


def _number(text: str, most: int, name: str, line: int) -> int:
    text = text.strip()
    # at most 19 digits: longer ones cost time
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= most):
        raise OffsetsFileError(f"line {line}: {text[:40]!r} is no {name}")
    return int(text)
