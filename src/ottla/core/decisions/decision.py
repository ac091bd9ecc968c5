"""A controller's decision: records to append, and the answer to give once they are durable.

Every manager (topics, partitions, configs, registration, …) consists of functions from the image and a
request to a decision. They change nothing: the image changes when the records are applied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

if TYPE_CHECKING:
    from ottla.protocol.schema import Message

T = TypeVar("T")

#: The most records that one request may cause, as in Apache Kafka.
MAX_RECORDS_PER_REQUEST = 10_000


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """Records and the answer that holds once all of them are durable and applied."""

    records: list[Message]
    response: T


class Randomness(Protocol):
    """The source of random choices: the core draws no random numbers itself."""

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""

    def new_id(self) -> UUID:
        """A new id, of a topic, an ACL or a token."""


#: Counts partitions that a client creates or deletes (KIP-599). Raises ThrottlingQuotaExceeded.
ChargePartitions: TypeAlias = Callable[[int], None]


def uncharged(partitions: int) -> None:
    """Count nothing: the change is nobody's that has a quota."""


#: Whether the client may do something with the topic of this name.
MayTopic: TypeAlias = Callable[[str], bool]


def anyone_may(name: str) -> bool:
    """Yes: nothing is refused."""
    return True


#: The version of each type of record from metadata.version 4.3-IV0 on, where it is not 0.
_VERSIONS = {0: 4, 3: 2, 5: 2}
_BROKER_REGISTRATION_CHANGE = 17


def record_version(record: Message) -> int:
    """The version in which a metadata record is written."""
    kind = record.API_KEY
    if kind == _BROKER_REGISTRATION_CHANGE:
        return _registration_change_version(record)
    return _VERSIONS.get(kind, 0) if kind is not None else 0


def _registration_change_version(record: Message) -> int:
    """The smallest version that has all fields in use, as Kafka chooses it."""
    if getattr(record, "cordoned_log_dirs", None) is not None:
        return 3
    if getattr(record, "log_dirs", None):
        return 2
    return 1 if getattr(record, "in_controlled_shutdown", 0) else 0
