"""The metadata and assignments of the workers' group: the protocol `sessioned`, in Java's bytes (KIP-415)."""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.connect.core.ids import TaskId

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "sessioned"
VERSION: Final = 2
MAX_ITEMS: Final = 1_000_000


class AssignmentError(enum.IntEnum):
    """Why an assignment gives nothing."""

    NONE = 0
    CONFIG_MISMATCH = 1


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment of the leader. offset: of connect-configs, as far as the leader had read it."""

    error: AssignmentError = AssignmentError.NONE
    leader: str = ""
    leader_url: str = ""
    offset: int = -1
    assigned: Sequence[TaskId] = ()
    revoked: Sequence[TaskId] = ()
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Metadata:
    """A worker as it joins. running: what it runs at the moment."""

    url: str
    offset: int
    running: Sequence[TaskId] = ()


def encode_metadata(metadata: Metadata) -> bytes:
    """The bytes of a member's metadata."""
    claim = encode_assignment(Assignment(offset=metadata.offset, assigned=metadata.running))
    head = struct.pack(">h", VERSION) + _text(metadata.url) + struct.pack(">q", metadata.offset)
    return head + struct.pack(">i", len(claim)) + claim


def decode_metadata(data: bytes) -> Metadata:
    """Raises ValueError for bytes that are none."""
    reader = _Reader(data)
    version = reader.number(">h")
    url, offset = reader.text(), reader.number(">q")
    length = reader.number(">i") if version > 0 and reader.has_more else -1
    claim = decode_assignment(reader.take(length)) if length > 0 else Assignment()
    return Metadata(url, offset, claim.assigned)


def encode_assignment(assignment: Assignment) -> bytes:
    """The bytes of an assignment."""
    return b"".join(
        (
            struct.pack(">hh", VERSION, assignment.error),
            _text(assignment.leader),
            _text(assignment.leader_url),
            struct.pack(">q", assignment.offset),
            _tasks(assignment.assigned),
            _tasks(assignment.revoked),
            struct.pack(">i", assignment.delay_ms),
        )
    )


def decode_assignment(data: bytes) -> Assignment:
    """Raises ValueError for bytes that are none."""
    reader = _Reader(data)
    version = reader.number(">h")
    error = AssignmentError(reader.number(">h"))
    leader, leader_url, offset = reader.text(), reader.text(), reader.number(">q")
    assigned = reader.tasks()
    revoked = reader.tasks() if version > 0 and reader.has_more else []
    delay_ms = reader.number(">i") if reader.has_more else 0
    return Assignment(error, leader, leader_url, offset, assigned, revoked, delay_ms)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def _tasks(ids: Sequence[TaskId]) -> bytes:
    by_connector: dict[str, list[int]] = {}
    for id in ids:
        by_connector.setdefault(id.connector, []).append(id.task)
    parts = [struct.pack(">i", len(by_connector))]
    for connector, tasks in by_connector.items():
        parts += [_text(connector), struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)]
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def has_more(self) -> bool:
        return self._place < len(self._data)

    def take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self._place:
            raise ValueError("the bytes end too early")
        self._place += length
        return self._data[self._place - length : self._place]

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def text(self) -> str:
        return self.take(self.number(">h")).decode()

    def tasks(self) -> list[TaskId]:
        found: list[TaskId] = []
        for _ in range(self._count()):
            connector = self.text()
            found += [TaskId(connector, self.number(">i")) for _ in range(self._count())]
            if len(found) > MAX_ITEMS:
                raise ValueError("too many tasks")
        return found

    def _count(self) -> int:
        count = self.number(">i")
        if not -1 <= count <= MAX_ITEMS:
            raise ValueError(f"{count} is no number of items")
        return max(0, count)
